#!/bin/sh
# Installs what the demo and the tests need on Debian and Ubuntu, and nothing
# that is there already.
#
#   tools/setup.sh [postgres|pgbouncer|gcc|namespaces|clickhouse|chdb|prometheus|chromium|all] ...
#
#   postgres    PostgreSQL's server programs, 13 or newer (for the demo and tests)
#   pgbouncer   PgBouncer (tests)
#   gcc         a C compiler and libc headers (go test -race)
#   namespaces  unshare and ip (tests that run the exporter as PID 1)
#   clickhouse  Debian's ClickHouse server, an old one (tests)
#   chdb        ClickHouse 26.7 as a library, 178 MB from npm (tests); it goes to
#               ~/.cache/docket-exporter (XDG_CACHE_HOME), or CHDB_LIB names one
#   prometheus  Prometheus and promtool, 22 MB (tests of alert rules and dashboard)
#   chromium    Chromium and a font, 113 MB (tests of the status page)
#   all         all of them (the default)
#
# Packages are installed without their services: no cluster is created and no
# daemon started.
set -eu

say() { echo "setup: $*" >&2; }

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null 2>&1; then
		sudo "$@"
	else
		say "this needs root and there is no sudo; as root run: tools/setup.sh $parts"
		exit 1
	fi
}

# The major version of the server in directory $1; 0 when it has none.
server_version() {
	[ -x "$1/postgres" ] && [ -x "$1/initdb" ] || { echo 0; return; }
	"$1/postgres" --version 2>/dev/null | sed -n 's/.*(PostgreSQL) \([0-9][0-9]*\).*/\1/p' | grep . || echo 0
}

has_postgres() {
	if path=$(command -v postgres); then
		path=$(readlink -f "$path")
		[ "$(server_version "${path%/*}")" -ge 13 ] && return 0
	fi
	for dir in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin; do
		[ "$(server_version "$dir")" -ge 13 ] && return 0
	done
	return 1
}

has_pgbouncer() {
	command -v pgbouncer >/dev/null || [ -x /usr/sbin/pgbouncer ] || [ -x /usr/local/sbin/pgbouncer ]
}

# A compiler without headers or linker is of no use: compile and link something.
has_gcc() {
	command -v "${CC:-gcc}" >/dev/null || return 1
	scratch=$(mktemp -d)
	printf '#include <stdlib.h>\n#include <pthread.h>\nint main(void) { return EXIT_SUCCESS; }\n' >"$scratch/try.c"
	worked=0
	"${CC:-gcc}" -o "$scratch/try" "$scratch/try.c" -lpthread >/dev/null 2>&1 || worked=1
	rm -rf "$scratch"
	return $worked
}

has_namespaces() {
	command -v unshare >/dev/null && { command -v ip >/dev/null || [ -x /usr/sbin/ip ] || [ -x /sbin/ip ]; }
}

has_clickhouse() {
	command -v clickhouse-server >/dev/null || [ -x /usr/sbin/clickhouse-server ] || [ -x /usr/bin/clickhouse-server ]
}

# ClickHouse as a library: npm package, version, and the SHA-256 of its archive.
chdb_package=@chdb/lib-linux-x64-gnu
chdb_version=26.7.3-stable.1
chdb_sum=c0d32b129e988f2b9a9a31c9141aecf5e1e2453f9a079efc4d36ab8e3f92b2ad
chdb_cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/docket-exporter/chdb-$chdb_version

has_chdb() {
	[ -f "${CHDB_LIB:-$chdb_cache/libchdb.so}" ]
}

has_prometheus() {
	command -v prometheus >/dev/null && command -v promtool >/dev/null
}

has_chromium() {
	command -v chromium >/dev/null || command -v google-chrome >/dev/null
}

# Fetches the library into the cache, under its name only once it is whole.
fetch_chdb() {
	if [ -n "${CHDB_LIB:-}" ]; then
		say "chdb: CHDB_LIB names $CHDB_LIB, which is not there: unset it, or put the library there"
		return 1
	fi
	if [ "$(uname -s) $(uname -m)" != "Linux x86_64" ]; then
		say "chdb: the package is for Linux on x86_64 only; set CHDB_LIB to a libchdb.so of version $chdb_version"
		return 1
	fi
	say "chdb: fetching $chdb_package@$chdb_version from npm (178 MB) into $chdb_cache"
	mkdir -p "$chdb_cache"
	fetched=$(mktemp -d "$chdb_cache/fetch.XXXXXX")
	worked=0
	(
		cd "$fetched" &&
			npm pack --silent "$chdb_package@$chdb_version" >/dev/null &&
			echo "$chdb_sum  $(echo ./*.tgz)" | sha256sum -c --quiet - >&2 &&
			tar -xzf ./*.tgz package/libchdb.so &&
			mv -f package/libchdb.so "$chdb_cache/libchdb.so"
	) || worked=1
	rm -rf "$fetched"
	return $worked
}

packages_of() {
	case $1 in
	postgres) echo postgresql ;;
	pgbouncer) echo pgbouncer ;;
	gcc) echo gcc libc6-dev ;;
	namespaces) echo util-linux iproute2 ;;
	clickhouse) echo clickhouse-server ;;
	chdb) command -v npm >/dev/null || echo npm ;; # what fetches it
	prometheus) echo prometheus ;;
	chromium) echo chromium fonts-dejavu-core ;;
	esac
}

parts=${*:-all}
wanted=
for part in $parts; do
	case $part in
	postgres | pgbouncer | gcc | namespaces | clickhouse | chdb | prometheus | chromium) wanted="$wanted $part" ;;
	all) wanted="$wanted postgres pgbouncer gcc namespaces clickhouse chdb prometheus chromium" ;;
	-h | --help | help)
		sed -n '2,/^set/s/^# \{0,1\}//p' "$0"
		exit 0
		;;
	*)
		say "unknown part '$part': one of postgres, pgbouncer, gcc, namespaces, clickhouse, chdb, prometheus, chromium, all"
		exit 2
		;;
	esac
done

missing=
packages=
for part in $wanted; do
	if "has_$part"; then
		say "$part: already here"
	else
		missing="$missing $part"
		packages="$packages $(packages_of "$part")"
	fi
done
[ -n "$missing" ] || exit 0

# While packages are installed: a policy that starts no service (invoke-rc.d asks
# it), and a setting that makes postgresql-common create no cluster. Both are
# removed, or put back, however this ends.
policy=/usr/sbin/policy-rc.d
saved=
clusters=/etc/postgresql-common/createcluster.d/docket-exporter-setup.conf

restore() {
	trap - EXIT INT TERM
	if [ -n "$saved" ]; then
		as_root mv -f "$saved" "$policy"
	else
		as_root rm -f "$policy"
	fi
	as_root sh -c 'rm -f "$1"; rmdir "${1%/*}" 2>/dev/null || :' sh "$clusters"
}

guard() {
	# A policy that is ours was left by a run that was killed.
	if [ -e "$policy" ] && ! grep -q 'docket-exporter setup' "$policy"; then
		as_root cp -p "$policy" "$policy.docket-exporter-setup"
		saved=$policy.docket-exporter-setup
	elif [ -e "$policy.docket-exporter-setup" ]; then
		saved=$policy.docket-exporter-setup
	fi
	trap restore EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	# shellcheck disable=SC2016 # expanded by the policy, not here
	as_root sh -c '
		set -e
		printf "#!/bin/sh\n# docket-exporter setup: start nothing (removed when it ends)\nexit 101\n" >"$1.new"
		chmod 755 "$1.new"
		mv -f "$1.new" "$1"
		mkdir -p "${2%/*}"
		echo "create_main_cluster = false" >"$2"
	' sh "$policy" "$clusters"
}

install() {
	# shellcheck disable=SC2086 # a list
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $packages
}

known() {
	for package in $packages; do
		apt-cache policy "$package" 2>/dev/null | grep -q 'Candidate: [^(]' || return 1
	done
}

install_packages() {
	if ! command -v apt-get >/dev/null; then
		say "missing:$missing; there is no apt-get here: install the equivalents of$packages yourself"
		exit 1
	fi
	say "missing:$missing; installing with apt-get:$packages"
	as_root true # ask for the rights before anything changes
	guard
	updated=
	if ! known; then
		say "running apt-get update"
		as_root apt-get update -q
		updated=1
	fi
	if ! install; then
		[ -z "$updated" ] || { say "apt-get could not install:$packages (see above)"; exit 1; }
		say "the package lists may be old; running apt-get update and trying again"
		as_root apt-get update -q
		install || { say "apt-get could not install:$packages (see above)"; exit 1; }
	fi
	restore
}

# shellcheck disable=SC2086 # a list that may be blank
set -- $packages
[ $# = 0 ] || install_packages
for part in $missing; do
	if [ "$part" = chdb ]; then
		fetch_chdb || { say "chdb could not be fetched (see above)"; exit 1; }
	fi
done

for part in $missing; do
	"has_$part" || { say "$part is still missing after installing it"; exit 1; }
	say "$part: installed"
done
