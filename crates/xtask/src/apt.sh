# Installs packages without letting them start services.
# arguments: where policy-rc.d belongs, then the packages
# answer: exit status 0 if all of them are installed
#
# Debian's packages ask policy-rc.d before they start anything; 101 means no.
# Tests start their own servers, and one on the usual port would be in the way.
set -eu
policy=$1
shift
saved=$policy.saved-by-leasehold

# An earlier run that was killed may have left ours behind; that one is not
# worth saving.
if [ -e "$policy" ] && ! grep -q leasehold "$policy"; then
    mv "$policy" "$saved"
fi
restore() {
    rm -f "$policy"
    if [ -e "$saved" ]; then mv "$saved" "$policy"; fi
}
trap restore EXIT
trap 'exit 130' INT
trap 'exit 143' HUP TERM
printf '#!/bin/sh\n# in place while leasehold installs packages\nexit 101\n' >"$policy"
chmod 755 "$policy"

export DEBIAN_FRONTEND=noninteractive
run() {
    echo "\$ DEBIAN_FRONTEND=noninteractive $*"
    "$@" </dev/null
}
run apt-get update
# One name that this release does not have would fail all the others.
for package; do
    shift
    if apt-cache policy "$package" | grep -q 'Candidate: [^(]'; then
        set -- "$@" "$package"
    else
        echo "there is no package $package here"
    fi
done
[ $# -eq 0 ] || run apt-get install --yes --no-install-recommends -o DPkg::Lock::Timeout=120 "$@"
