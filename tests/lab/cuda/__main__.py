"""Serve stand-in installers by hand: `python -m tests.lab.cuda [RELEASE...] [--whole] [--address A] [--port N]`."""

from __future__ import annotations

import argparse
import signal

from tests.lab.cuda import runfiles
from tests.lab.cuda.site import DownloadSite


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.cuda", description="Serve stand-in CUDA installers.")
    parser.add_argument("release", nargs="*", help="such as 12.4 or 12.4.1")
    parser.add_argument("--whole", action="store_true", help="also the 11.7.1 that compiles")
    parser.add_argument("--address", default="127.0.0.1", help="the gateway of the hosts' network lets them reach it")
    parser.add_argument("--port", type=int, default=0)
    words = parser.parse_args()
    wanted = [runfiles.small(release) for release in words.release] + [runfiles.whole_117()] * words.whole
    ends = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    with DownloadSite(words.address, words.port) as site:
        for served in map(site.publish, wanted):
            print(f"url: {served.url}\n  sha256: {served.sha256}\n  size: {served.size}", flush=True)
        signal.sigwait(ends)


if __name__ == "__main__":
    main()
