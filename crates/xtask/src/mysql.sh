# Brings MySQL from Debian's unstable packages into a folder, without installing anything.
# arguments: the folder
# answer: exit status 0 if the server and its client are below FOLDER/usr
#
# What the packages need comes along, the C library too: the server is started with the
# loader that lies beside it. The mirror is the one that this machine's apt uses.
set -eu
folder=$1
work=$folder/apt
mkdir -p "$work/lists/partial" "$work/archives/partial"
: >"$work/status"
site=$(apt-get indextargets --format '$(SITE) $(RELEASE)' 'Created-By: Packages' 'Origin: Debian' |
    grep -v security | head -n 1 | cut -d ' ' -f 1)
if [ -z "$site" ]; then
    echo "apt of this machine knows no mirror of Debian" >&2
    exit 1
fi
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $site unstable main" \
    >"$work/sources.list"
apt() {
    apt-get --quiet --option Dir::Etc::SourceList="$work/sources.list" \
        --option Dir::Etc::SourceParts=/dev/null \
        --option Dir::State::Lists="$work/lists" \
        --option Dir::State::Status="$work/status" \
        --option Dir::Cache::Archives="$work/archives" \
        --option Dir::Cache::PkgCache= --option Dir::Cache::SrcPkgCache= \
        --option APT::Sandbox::User=root --option Debug::NoLocking=1 "$@" </dev/null
}
apt update
apt install --yes --download-only --no-install-recommends mysql-server-core mysql-client-core
for package in "$work"/archives/*.deb; do
    dpkg-deb -x "$package" "$folder"
done
rm -rf "$work" "$folder/usr/share/doc" "$folder/usr/share/locale" "$folder/usr/share/man"
