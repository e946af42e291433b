#!/bin/bash
# Remove every container, network and image of the test lab on this machine, also of those who are at work with it.
set -euo pipefail

mapfile -t containers < <(docker ps -aq --filter label=gpuprov-lab.owner)
[ ${#containers[@]} -eq 0 ] || docker rm -f -v "${containers[@]}" >/dev/null
mapfile -t networks < <(docker network ls -q --filter label=gpuprov-lab.owner)
[ ${#networks[@]} -eq 0 ] || docker network rm "${networks[@]}" >/dev/null
mapfile -t images < <(docker images --format '{{.Repository}}:{{.Tag}}' 'gpuprov-lab-*')
[ ${#images[@]} -eq 0 ] || docker rmi -f "${images[@]}" >/dev/null
echo "removed ${#containers[@]} containers, ${#networks[@]} networks and ${#images[@]} images"
