#!/usr/bin/env bash
# A system that has Python and nothing else, where a wheel is installed and a Numba and a CuPy program run: two commands, timed.
#
#   cargo xtask wheel && sudo tests/container.sh target/wheels/margay-*.whl
#
# Debian's packages come by debootstrap, from its own configuration (MIRROR names another source), the wheels by pip's.
# The folder of the system is kept (CONTAINER, default .cache/container), and pip's cache is not in it, so that each run
# installs as a fresh machine does.
set -euo pipefail

wheel=$(readlink -e "${1:?a wheel}")
here=$(readlink -e "$(dirname "$0")")
root=${CONTAINER:-$here/../.cache/container}
suite=${SUITE:-bookworm}

if [ ! -e "$root/margay-ready" ]; then
    command -v debootstrap >/dev/null || { echo "debootstrap is needed (apt-get install debootstrap)" >&2; exit 1; }
    mkdir -p "$root"
    # shellcheck disable=SC2086
    debootstrap --variant=minbase --include=python3,python3-pip,ca-certificates "$suite" "$root" ${MIRROR:-} >"$root.log"
    touch "$root/margay-ready"
fi
root=$(readlink -e "$root")
for missing in nvcc cc cargo margay; do
    if [ -e "$root/usr/bin/$missing" ]; then echo "the system has $missing" >&2; exit 1; fi
done

# What a run leaves goes with the layer that it writes to.
layer=$(mktemp -d "$root.run-XXXX")
trap 'umount -l "$layer/system" 2>/dev/null || true; rm -rf "$layer"' EXIT
mkdir "$layer/upper" "$layer/work" "$layer/system"
mount -t overlay overlay -o "lowerdir=$root,upperdir=$layer/upper,workdir=$layer/work" "$layer/system"
system=$layer/system
mkdir "$system/job"
cp "$wheel" "$here/clients/numba/minimal.py" "$system/job"
cp "$here/clients/cupy/minimal.py" "$system/job/cupy_minimal.py"
# The programs' wheels, without what only their test suites need.
cat "$here"/clients/{numba,cupy}/requirements.txt | grep -E '^[A-Za-z]' | grep -vE '^(pytest|filecheck|iniconfig|pluggy|Pygments)' |
    sort -u >"$system/job/requirements.txt"
cp -L /etc/resolv.conf "$system/etc/resolv.conf" 2>/dev/null || true
if [ -e /etc/pip.conf ]; then cp /etc/pip.conf "$system/etc/pip.conf"; fi
if [ -d /etc/ssl/certs ]; then cp -rL /etc/ssl/certs/ca-certificates.crt "$system/etc/ssl/certs/"; fi

# With pip's own variables and nothing else of this environment.
settings=(PATH=/usr/local/bin:/usr/bin:/bin HOME=/root PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore)
while IFS= read -r setting; do settings+=("$setting"); done < <(env | grep -E '^(PIP_|https?_proxy=|HTTPS?_PROXY=|no_proxy=|NO_PROXY=)' || true)
inside() {
    unshare --mount --pid --fork --mount-proc="$system/proc" \
        chroot "$system" env -i "${settings[@]}" bash -euc "cd /job; $1"
}
mount --bind /dev "$system/dev"
trap 'umount -l "$system/dev" "$layer/system" 2>/dev/null || true; rm -rf "$layer"' EXIT

TIMEFORMAT='%R s, %U s and %S s of processors'
echo "pip install margay-*.whl, numba-cuda, cupy:"
time inside "pip install -qq --no-cache-dir ./*.whl -r requirements.txt"
echo "margay run, both programs:"
time inside "margay run bash -c 'python3 minimal.py && python3 cupy_minimal.py'"
