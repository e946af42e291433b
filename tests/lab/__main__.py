"""The lab by hand: `python -m tests.lab up|down|status`.  Hosts stay until `down`."""

import argparse
import sys
from pathlib import Path

from tests.lab import engine
from tests.lab.engine import LabError
from tests.lab.lab import Lab

OWNER = "by-hand"


def main() -> int:
    """Start or remove hosts, and write their inventory."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="start hosts and write their inventory")
    up.add_argument(
        "shapes", nargs="*", choices=[[], "a", "b"], metavar="SHAPE", help="a or b, one host each (default: a b)"
    )
    up.add_argument("--inventory", type=Path, help="default: inventory.yml in the lab's cache folder")
    commands.add_parser("down", help="remove them")
    commands.add_parser("status", help="list the lab's containers")
    args = parser.parse_args()
    try:
        engine.ensure_engine()
        if args.command == "status":
            print(engine.docker("ps", "-a", "--filter", f"label={engine.OWNER_LABEL}"), end="")
            return 0
        engine.remove_leftovers(of=OWNER)
        if args.command == "up":
            lab = Lab(owner=OWNER)
            for shape in args.shapes or ["a", "b"]:
                lab.start(shape)
            path = lab.write_inventory(args.inventory or lab.folder / "inventory.yml")
            print(path.read_text(), end="")
            print(f"# inventory: {path}")
            for host in lab.hosts.values():
                print(f"# ssh -F {host.ssh_config()} {host.name}")
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
