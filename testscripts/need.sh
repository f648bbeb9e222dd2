#!/bin/sh
# need.sh COMMAND... says which package brings each command that is missing, and
# as root installs it.
set -eu

package() {
	case $1 in
	cc) if command -v apk >/dev/null; then echo gcc musl-dev; elif command -v apt-get >/dev/null; then echo gcc libc6-dev; else echo gcc glibc-devel glibc-static; fi ;;
	flock | unshare | nsenter | setpriv | mount | su | ionice | chrt) echo util-linux ;;
	xargs) echo findutils ;;
	ps) if command -v apk >/dev/null || command -v apt-get >/dev/null; then echo procps; else echo procps-ng; fi ;;
	atd) echo at ;;
	sqlite3) if command -v apt-get >/dev/null; then echo sqlite3; else echo sqlite; fi ;;
	systemctl) echo systemd ;;
	ip) if command -v dnf >/dev/null; then echo iproute; else echo iproute2; fi ;;
	dbus-daemon) echo dbus ;;
	redis-server) if command -v apt-get >/dev/null; then echo redis-server; else echo redis; fi ;;
	postgres) if command -v dnf >/dev/null; then echo postgresql-server; else echo postgresql; fi ;;
	psql) if command -v dnf >/dev/null; then echo postgresql; else echo postgresql-client; fi ;;
	redis-cli) if command -v apt-get >/dev/null; then echo redis-tools; else echo redis; fi ;;
	etcd) if command -v apt-get >/dev/null; then echo etcd-server; else echo etcd; fi ;;
	vi) if command -v apt-get >/dev/null; then echo vim-tiny; elif command -v apk >/dev/null; then echo vim; else echo vim-minimal; fi ;;
	ssh) if command -v dnf >/dev/null; then echo openssh-clients; else echo openssh-client; fi ;;
	sshd) echo openssh-server ;;
	mariadbd) if command -v apk >/dev/null; then echo mariadb; else echo mariadb-server; fi ;;
	mariadb) if command -v dnf >/dev/null; then echo mariadb; else echo mariadb-client; fi ;;
	etcdctl) if command -v apt-get >/dev/null; then echo etcd-client; elif command -v apk >/dev/null; then echo etcd-ctl; else echo etcd; fi ;;
	*) echo "$1" ;;
	esac
}

# Debian keeps PostgreSQL's programs out of PATH.
present() {
	command -v "$1" >/dev/null || ls /usr/lib/postgresql/*/bin/"$1" >/dev/null 2>&1
}

packages=
for command in "$@"; do
	present "$command" && continue
	for name in $(package "$command"); do
		case "$packages " in
		*" $name "*) ;;
		*) packages="$packages $name" ;;
		esac
	done
done
[ -n "$packages" ] || exit 0

if command -v apt-get >/dev/null; then
	install="apt-get install -y --no-install-recommends"
	update="apt-get update"
elif command -v dnf >/dev/null; then
	install="dnf install -y"
	update=true
elif command -v apk >/dev/null; then
	install="apk add"
	update=true
else
	echo "missing:$packages; install it with this system's package manager" >&2
	exit 1
fi
if [ "$(id -u)" != 0 ]; then
	echo "missing:$packages; as root: $install$packages" >&2
	exit 1
fi
# Debian starts a server that it installs, unless this file tells it not to.
policy=/usr/sbin/policy-rc.d
if command -v apt-get >/dev/null && ! [ -e "$policy" ]; then
	trap 'rm -f "$policy"' EXIT
	trap 'exit 1' HUP INT TERM
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
fi
echo "installing:$packages" >&2
$update >&2
# shellcheck disable=SC2086 # several packages, several words
DEBIAN_FRONTEND=noninteractive $install $packages >&2
