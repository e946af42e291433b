#!/bin/sh
# Use torch as it is in an environment: import, cuDNN, each card, and a package that was compiled against it.
# After acceptance_answer.sh.
# In:  gp_prefix   the environment
#      gp_seconds_torch   all of it is ended after that
#      gp_module   what is imported of the package; empty: none
#      gp_compare  Python source that compares its numbers with torch's on a card; it is given torch and module
# Out: absent   when the environment has no Python; else lines that begin with "gpuprov: " among what libraries print:
#      at LAYER (it begins) · torch VERSION|CUDA · cudnn NUMBER · card N|CAPABILITY|NAME · none WHY (no card can be used)
#      module VERSION · compared WORDS · trouble LAYER WHY · end;   then status N
# shellcheck disable=SC2154  # the variables are set by what precedes
# The kernel's cache of compiled code and Python's are left as they are: a look writes nothing.
gp_program='
import sys

def say(what, *words):
    print("\ngpuprov: " + what + " " + " ".join("|".join(map(str, words)).split())[:400], flush=True)

def trouble(layer, error):
    say("trouble", layer + " " + type(error).__name__ + ": " + str(error))

def on(torch, number):
    x = torch.arange(1024, dtype=torch.float32, device="cuda:%d" % number)
    if (x * 2).sum().item() != 1023 * 1024:
        raise ArithmeticError("card %d adds wrongly" % number)
    say("card", number, "%d.%d" % torch.cuda.get_device_capability(number), torch.cuda.get_device_name(number))

def cards(torch):
    if not torch.version.cuda or not torch.cuda.is_available():
        try:
            torch.cuda.init()
            why = "torch.cuda.is_available() is false"
        except Exception as error:
            why = str(error)
        say("none", why)
        return False
    for number in range(torch.cuda.device_count()):
        on(torch, number)
    say("at", "cudnn")
    if torch.backends.cudnn.is_available():
        # Only a convolution loads the libraries that do the work; torch aborts when one of them is missing.
        try:
            torch.nn.functional.conv2d(torch.ones(1, 8, 8, 8, device="cuda"), torch.ones(8, 8, 3, 3, device="cuda"))
            torch.cuda.synchronize()
        except Exception as error:
            trouble("cudnn", error)
    return True

def version_of(module):
    found = getattr(module, "__version__", "")
    if not found:
        from importlib.metadata import version
        try:
            found = version(module.__name__)
        except Exception:
            found = "of unknown version"
    return found

def package(torch, name, compare, usable):
    import contextlib, importlib, io
    module = importlib.import_module(name)
    say("module", version_of(module))
    if usable and compare:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(compare, "compare", "exec"), {"torch": torch, "module": module, "__name__": "compare"})
        say("compared", printed.getvalue())

def main(name, compare):
    layer, usable = "torch", False
    say("at", layer)
    try:
        import torch
        say("torch", torch.__version__, torch.version.cuda or "")
    except Exception as error:
        trouble(layer, error)
        return
    layer = "cudnn"
    say("at", layer)
    try:
        say("cudnn", torch.backends.cudnn.version() or "")
    except Exception as error:
        trouble(layer, error)
    layer = "device"
    say("at", layer)
    try:
        usable = cards(torch)
    except Exception as error:
        trouble(layer, error)
    if name:
        layer = "module"
        say("at", layer)
        try:
            package(torch, name, compare, usable)
        except Exception as error:
            trouble(layer, error)

main(*sys.argv[1:])
say("end")
'
if [ -x "$gp_prefix/bin/python" ]; then
  gp_answer "$gp_seconds_torch" env PYTHONNOUSERSITE=1 CUDA_CACHE_DISABLE=1 \
    "$gp_prefix/bin/python" -I -B -c "$gp_program" "$gp_module" "$gp_compare"
else
  echo absent
fi
