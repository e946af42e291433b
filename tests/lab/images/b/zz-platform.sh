# shellcheck shell=sh
# Banner of the platform: noise on standard output for login shells.
if [ -z "${LC_LAB_QUIET:-}" ]; then
    echo 'Welcome to vast.ai. If authentication fails, try again after a few seconds, and double check your ssh key.'
    echo 'Have fun!'
fi
