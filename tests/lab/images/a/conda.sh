# shellcheck shell=sh disable=SC3043  # local: every shell here has it
# Stand-in for conda's shell function: activate and deactivate, the rest goes to the command.
conda() {
    case "${1:-}" in
    activate)
        local prefix="${2:-base}"
        case $prefix in
        base) prefix=/root/miniconda3 ;;
        /*) ;;
        *) prefix=/root/miniconda3/envs/$prefix ;;
        esac
        if [ ! -d "$prefix/conda-meta" ]; then
            echo "EnvironmentNameNotFound: Could not find conda environment: ${2:-base}" >&2
            return 1
        fi
        export CONDA_PREFIX="$prefix" CONDA_DEFAULT_ENV="${2:-base}" CONDA_SHLVL=1
        export PATH="$prefix/bin:$PATH"
        ;;
    deactivate)
        PATH=${PATH#"${CONDA_PREFIX:-}/bin:"}
        unset CONDA_PREFIX CONDA_DEFAULT_ENV
        ;;
    *) /root/miniconda3/bin/conda "$@" ;;
    esac
}
