#!/usr/bin/env bash
# Starts drdotnet beside a running container and examines what runs in it.
set -euo pipefail

usage() {
	cat <<END
examine-container.sh -c CONTAINER [-s] [-k VERSION] [-h] [-- COMMAND ...]

  -c CONTAINER  id or name of the running container
  -s            first download the runtime's symbols (from DRDOTNET_SYMBOL_SERVERS; Microsoft's when it is not set)
  -k VERSION    accepted and not needed: no kernel headers are used
  -h            this text

Without COMMAND the CPU is sampled for 30 seconds (cpu collect); others: -- stacks 1, -- ps, -- run heap-stats 1.
Results are kept in ~/perf-profilings. DRDOTNET_IMAGE names another image than drdotnet/web.
END
}

container="" symbols=no
while getopts c:sk:h option; do
	case $option in
	c) container=$OPTARG ;;
	s) symbols=yes ;;
	k) ;;
	h) usage && exit 0 ;;
	*) usage >&2 && exit 2 ;;
	esac
done
shift $((OPTIND - 1))
if [[ -z $container ]]; then
	usage >&2
	exit 2
fi
if [[ $(docker inspect --format '{{.State.Running}}' "$container" 2>/dev/null) != true ]]; then
	echo "examine-container.sh: no running container '$container'" >&2
	exit 1
fi

results=$HOME/perf-profilings
mkdir -p "$results"
beside=(--rm --pid "container:$container" --cap-add SYS_PTRACE --cap-add SYS_ADMIN --security-opt seccomp=unconfined
	-v "$results:/results" --volumes-from "$container" -e DRDOTNET_HOME=/results --workdir /results)
image=${DRDOTNET_IMAGE:-drdotnet/web}
docker inspect --format 'container {{slice .Id 0 12}} {{.Name}} ({{.Config.Image}})' "$container"
docker inspect --format '{{range .Mounts}}mount {{.Source}} on {{.Destination}}{{println}}{{end}}' "$container" | sed '/^$/d'
echo "results in $results"

if [[ $symbols == yes ]]; then
	# Kept with the results, so that they are there the next time; without them frames have fewer names, no more.
	certificates=/etc/ssl/certs/ca-certificates.crt
	[[ ! -e $certificates ]] || beside+=(-v "$certificates:$certificates:ro")
	docker run "${beside[@]}" --network host -e DRDOTNET_SYMBOL_SERVERS -e DEBUGINFOD_URLS "$image" \
		symbols fetch 1 --only debug || echo "examine-container.sh: no symbols could be added" >&2
fi

[[ $# -gt 0 ]] || set -- cpu collect -pid 1 -duration 30
exec docker run "${beside[@]}" --network none "$image" "$@"
