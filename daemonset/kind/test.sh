#!/usr/bin/env bash
# test.sh: applies the walkthrough's policies phase by phase and asks, from inside the sandboxes,
# what each allows and denies. Begins with no policy of its own, so it can be run again.
# Exit code 0: all as expected; 1: something is not; 3: there is nothing to run it on.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
# shellcheck source-path=SCRIPTDIR source=env.sh
. "$here/env.sh"
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$here/lib.sh"
needs
needs_cluster

asked=0
failed=0

# What a sandbox can do: look a name up, open a connection, get a page. Prints allow or deny;
# a drop is a deny after some seconds.
probe='
import socket, sys, urllib.error, urllib.request
kind, target = sys.argv[1:]
try:
    if kind == "lookup":
        socket.getaddrinfo(target, 443)
    elif kind == "connect":
        host, port = target.rsplit(":", 1)
        socket.create_connection((host, int(port)), 5).close()
    else:
        urllib.request.urlopen(target, timeout=5).close()
except urllib.error.HTTPError:
    pass  # it was reached
except OSError:
    print("deny")
    sys.exit()
print("allow")
'

# inside NAMESPACE/POD KIND TARGET: allow or deny, or nothing and a complaint if neither can be
# said. Resolvers are asked for a second, twice: a denied lookup must not take minutes.
inside() {
  local run=(k exec -n "${1%/*}" "${1#*/}" -- env "RES_OPTIONS=timeout:1 attempts:2 ndots:1")
  if [ "$2" = pip ]; then
    # shellcheck disable=SC2016 # for the shell in there
    "${run[@]}" sh -c 'pip download --no-deps --no-cache-dir -q -d "$(mktemp -d)" --timeout 5 \
      --retries 0 "$0" >/dev/null 2>&1 && echo allow || echo deny' "$3"
  else
    "${run[@]}" python3 -c "$probe" "$2" "$3"
  fi
}

# expect ANSWER NAMESPACE/POD KIND TARGET [WORDS...]: asked again while the answer is another. A
# DNS answer may slip by the agent when it is busy, and a policy takes a moment to arrive.
expect() {
  local wanted=$1 pod=$2 kind=$3 target=$4 answer='' try
  shift 4
  asked=$((asked + 1))
  for ((try = 1; try <= TRIES; try++)); do
    answer=$(inside "$pod" "$kind" "$target") || answer="${answer:-no answer}"
    [ "$answer" = "$wanted" ] && break
    if ((try < TRIES)); then sleep "$PAUSE"; fi
  done
  report "$wanted" "$answer" "${pod%/*} $kind $target${1:+ ($*)}"
}

report() {
  if [ "$1" = "$2" ]; then
    echo "ok    $1: $3"
  else
    failed=$((failed + 1))
    echo "FAIL  expected $1, got $2: $3"
  fi
}

phase() {
  local file
  say "$1"
  shift
  for file in "$@"; do
    k apply -f "$manifests/$file"
  done
  sleep "$SETTLE"
}

say "from the beginning"
for file in "$manifests"/phase-[47]/*-cnp-*.yaml; do
  k delete --ignore-not-found -f "$file"
done
k delete sandbox raw-sandbox -n sandbox-team-a --ignore-not-found

sandbox_a=$(sandbox_of sandbox-team-a)
sandbox_b=$(sandbox_of sandbox-team-b)
if [ -z "$sandbox_a" ] || [ -z "$sandbox_b" ]; then
  echo "test.sh: the claims have no sandboxes: run setup-all.sh again" >&2
  exit 3
fi
a=sandbox-team-a/$sandbox_a
b=sandbox-team-b/$sandbox_b
raw=sandbox-team-a/raw-sandbox
tools="http://$(k get service tool-server -n shared-tools -o 'jsonpath={.spec.clusterIP}'):8080/"
dns="$(k get service kube-dns -n kube-system -o 'jsonpath={.spec.clusterIP}')"

phase "phase 1: what each template's own NetworkPolicy gives"
expect allow "$a" get https://github.com/
expect allow "$a" get https://example.com/ "any public site"
expect deny "$a" get "$tools" "a private address"
expect allow "$b" get "$tools" "team b's rules list the tools"

phase "phase 2: Admin tier, deny everything" phase-4/30-cnp-admin-default-deny.yaml
expect deny "$a" lookup github.com
expect deny "$a" get https://github.com/
expect deny "$b" get "$tools" "Admin beats NetworkPolicy"

phase "phase 3: DNS, and only DNS" phase-4/40-cnp-admin-allow-dns.yaml
expect allow "$a" lookup github.com "at 8.8.8.8"
expect allow "$b" lookup github.com "at cluster DNS"
expect deny "$a" connect "$dns:53" "Pass leaves it to the secure default"
expect deny "$a" get https://github.com/ "it resolves, and is still denied"

phase "phase 4: GitHub by name" phase-4/50-cnp-admin-allow-github.yaml
expect allow "$a" get https://github.com/
expect allow "$a" get https://api.github.com/ "by the wildcard"
expect deny "$a" get https://example.com/
expect deny "$a" connect 1.1.1.1:443 "no allowed name led there"

phase "phase 5: PyPI for team b" phase-7/60-cnp-admin-team-b-allow-pypi.yaml
expect allow "$b" pip requests
expect deny "$a" pip requests

phase "phase 6: Pass for the shared tools" phase-7/70-cnp-admin-pass-shared-tools.yaml
expect allow "$b" get "$tools" "its NetworkPolicy decides"
expect deny "$a" get "$tools" "its NetworkPolicy decides"

phase "phase 7: a sandbox without a template, and the Baseline floor"
kustomized raw | k apply -f -
eventually "raw-sandbox has a pod" k get pod raw-sandbox -n sandbox-team-a
k wait --for=condition=Ready --timeout="${PATIENCE}s" -n sandbox-team-a pod/raw-sandbox
expect allow "$raw" get "$tools" "no policy selects it"
phase "phase 7, the floor" phase-7/80-cnp-baseline-default-deny.yaml
expect deny "$raw" get "$tools"
expect allow "$b" get "$tools" "NetworkPolicy comes before Baseline"

say "the verdict in the agent's log"
expect deny "$a" get https://example.com/
node=$(k get pod "$sandbox_a" -n sandbox-team-a -o 'jsonpath={.spec.nodeName}')
agent=$(k get pod -n kube-system --field-selector "spec.nodeName=$node" \
  -l app.kubernetes.io/name=knp,app.kubernetes.io/component=agent -o name)
asked=$((asked + 1))
found=missing
if k logs -n kube-system "$agent" --since=5m | grep -F '"verdict":"deny"' \
  | grep -F "\"pod\":\"$a\"" | grep -F '"policy":"sandbox-egress-default-deny"' >/dev/null; then
  found=record
fi
report record "$found" "of $a, denied by sandbox-egress-default-deny"

say "$((asked - failed)) of $asked as expected"
if ((failed)); then
  echo "What the agents say: kubectl --context kind-$KIND_CLUSTER logs -n kube-system ds/knp"
  exit 1
fi
