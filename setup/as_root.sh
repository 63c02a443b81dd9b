#!/usr/bin/env bash
# Runs a command as root: directly, or with sudo; says clearly if neither is possible.
# Network namespaces, veth links and eBPF need root.
set -euo pipefail

if [ "$(id -u)" = 0 ]; then
    exec "$@"
elif command -v sudo >/dev/null; then
    # No bytecode of root's in the user's tree: the user could not remove it.
    exec sudo env PYTHONDONTWRITEBYTECODE=1 "$@"
fi
echo "error: this needs root (network namespaces, links, eBPF); you are $(id -un) and have no sudo" >&2
echo "remedy: run the same command as root, or install sudo" >&2
exit 1
