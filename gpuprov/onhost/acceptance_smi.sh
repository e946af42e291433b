#!/bin/sh
# Ask nvidia-smi which cards there are. After acceptance_answer.sh.
# Out: what it says, a line for each card: index, name, driver; then status N (127: there is none)
gp_smi=nvidia-smi
for gp_d in /usr/bin /usr/local/nvidia/bin /usr/lib/wsl/lib; do
  if command -v nvidia-smi >/dev/null 2>&1; then break; fi
  if [ -x "$gp_d/nvidia-smi" ]; then gp_smi=$gp_d/nvidia-smi && break; fi
done
gp_answer 10 "$gp_smi" --query-gpu=index,name,driver_version --format=csv,noheader
