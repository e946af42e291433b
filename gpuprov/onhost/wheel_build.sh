#!/bin/sh
# Build a wheel from a source release whose sum is known, with the compilers that are named and nothing else of the host.
# Text before it: job_head.sh, wheel_env.sh.
# In:  gp_sdist    where the source release lies, or is kept once pip has fetched it
#      gp_sha256   its sum
#      gp_toolkit  the CUDA toolkit, gp_cuda its X.Y
#      gp_gcc      gcc's number, as 11; its commands are gcc-11 and g++-11
#      gp_jobs     how many files are compiled at the same time
#      gp_modules  Python modules that the build imports
#      gp_settings a function that exports what the project's setup.py reads
# Out of gp_build: gp_wheel
# shellcheck disable=SC2154,SC2034  # the variables are set by what precedes, and read by what follows

gp_check_tools() {
  # shellcheck disable=SC2086  # words
  gp_check_env $gp_modules
  for gp_c in "gcc-$gp_gcc" "g++-$gp_gcc"; do
    command -v "$gp_c" >/dev/null || gp_stop 12 "$gp_c is not on this host: install the package $gp_c"
  done
  for gp_c in tee nice awk; do
    command -v "$gp_c" >/dev/null || gp_stop 12 "this host lacks the command $gp_c (packages coreutils, mawk)"
  done
  [ -x "$gp_toolkit/bin/nvcc" ] || gp_stop 12 "nvcc is missing: there is no $gp_toolkit/bin/nvcc"
  "$gp_toolkit/bin/nvcc" --version >"$gp_work/nvcc" 2>&1 || gp_stop 12 "$gp_toolkit/bin/nvcc does not run: $(tail -n 1 "$gp_work/nvcc")"
  gp_release=$(sed -n 's/.*release \([0-9]*\.[0-9]*\).*/\1/p' "$gp_work/nvcc" | head -n 1)
  [ "$gp_release" = "$gp_cuda" ] || gp_stop 12 "$gp_toolkit/bin/nvcc is of CUDA ${gp_release:-(it does not say)}, and torch $gp_torch was built with CUDA $gp_cuda"
  ninja --version >"$gp_work/ninja" 2>&1 || gp_stop 12 "ninja is missing in $gp_prefix, or does not run: without it the build compiles one file at a time"
}

gp_sum_fits() { # file
  gp_sum=$(sha256sum "$1") && [ "${gp_sum%% *}" = "$gp_sha256" ]
}

# Whatever mirror the host's pip uses; the sum says that it is the file. pip asks the project for its metadata as it
# fetches, so that this needs the same surroundings as the build.
gp_fetch() {
  if [ -f "$gp_sdist" ]; then
    if gp_sum_fits "$gp_sdist"; then return 0; fi
    gp_say "$gp_sdist is not the file that is wanted (sha256 ${gp_sum%% *}), and is fetched again"
    rm -f "$gp_sdist"
  fi
  gp_say "fetching the source of $gp_name $gp_version with pip"
  printf '%s==%s --hash=sha256:%s\n' "$gp_name" "$gp_version" "$gp_sha256" >"$gp_work/wanted"
  rm -rf "$gp_work/sdist"
  if ! "$gp_py" -I -m pip download --disable-pip-version-check --no-input --no-deps --no-build-isolation \
    --no-binary "$gp_name" --require-hashes --dest "$gp_work/sdist" -r "$gp_work/wanted" >"$gp_work/fetch.log" 2>&1; then
    gp_tell "$gp_work/fetch.log"
    gp_stop 15 "the source of $gp_name $gp_version could not be fetched with pip"
  fi
  set -- "$gp_work"/sdist/*
  if [ $# -ne 1 ] || [ ! -f "$1" ] || ! gp_sum_fits "$1"; then
    gp_stop 15 "pip fetched something else than the one file that is wanted"
  fi
  if ! { mkdir -p "${gp_sdist%/*}" && cp "$1" "$gp_sdist.new" && mv -f "$gp_sdist.new" "$gp_sdist"; }; then
    gp_stop 11 "the source of $gp_name could not be kept as $gp_sdist"
  fi
}

# gp_tell LOG: the first errors in it, which are the cause; the last ones are mostly those of the tools around them.
gp_tell() {
  grep -E '(^|[^A-Za-z_])(fatal )?error: |nvcc (fatal|error)|^[[:space:]]*error([: ]|$)|#error|ERROR: |(Error|Exception): |undefined reference to |Killed|died (due to|with) signal|No space left on device' "$1" |
    grep -Ev 'error: subprocess-exited-with-error|CalledProcessError|Error compiling objects for extension|ERROR: Failed (building|to build)|"ERROR: Can not execute' |
    awk '!seen[$0]++ { sub(/^[ \t]+/, ""); print substr($0, 1, 400); if (++n == 3) exit }' >"$gp_work/errors" || :
  if [ -s "$gp_work/errors" ]; then
    printf 'the first errors:\n' >&2
    sed 's/^/  /' "$gp_work/errors" >&2
  else
    printf 'the last lines:\n' >&2
    tail -n 5 "$1" | cut -c 1-400 | sed 's/^/  /' >&2
  fi
  gp_explain "$1" "$gp_build_known"
}

gp_build() {
  export CC="gcc-$gp_gcc" CXX="g++-$gp_gcc" CUDAHOSTCXX="g++-$gp_gcc" NVCC_PREPEND_FLAGS="-ccbin g++-$gp_gcc"
  export CUDA_HOME="$gp_toolkit" CUDA_PATH="$gp_toolkit" MAX_JOBS="$gp_jobs"
  # The source whose sum is known is all there is: no git that would fetch submodules beside it, as some setup.py ask for,
  # and which many hosts lack.
  mkdir -p "$gp_work/bin"
  printf '#!/bin/sh\necho "git is not used: the source is complete" >&2\nexit 1\n' >"$gp_work/bin/git"
  chmod 755 "$gp_work/bin/git"
  export PATH="$gp_work/bin:$gp_toolkit/bin:$PATH"
  gp_settings
  gp_check_tools
  gp_fetch
  gp_say "building $gp_name $gp_version for torch $gp_torch with nvcc $gp_cuda and gcc-$gp_gcc, $gp_jobs at a time"
  rm -rf "$gp_work/out"
  # The status goes through a file: sh has no pipefail.
  {
    if PIP_CONFIG_FILE=/dev/null nice -n 10 "$gp_py" -I -m pip --isolated --disable-pip-version-check --no-input \
      --no-cache-dir --verbose wheel --no-index --no-deps --no-build-isolation \
      --wheel-dir "$gp_work/out" "$gp_sdist" 2>&1; then
      echo 0 >"$gp_work/rc"
    else
      echo $? >"$gp_work/rc"
    fi
  } | tee "$gp_work/build.log"
  read -r gp_rc <"$gp_work/rc"
  if [ "$gp_rc" -ne 0 ]; then
    gp_tell "$gp_work/build.log"
    gp_stop 13 "$gp_name $gp_version could not be built"
  fi
  set -- "$gp_work"/out/*.whl
  if [ $# -ne 1 ] || [ ! -f "$1" ]; then
    gp_stop 13 "the build of $gp_name $gp_version ended well, and left no wheel"
  fi
  gp_wheel=$1
}
