#!/bin/sh
# The manifests in docker/ say what they must: each line is a file, a query (jq, over its YAML) that has
# to be true, and what it is about. Flags in them are deformd's. usage: manifests.sh DEFORMD
set -eu
top=$(dirname "$0")/../..
failed=0
holds() { # FILE QUERY WHAT
    if [ "$(yq "$2" "$top/docker/$1" 2>&1 | sort -u)" = true ]; then return 0; fi
    echo "manifests: $1: $3" >&2
    failed=1
}
pod='.spec.template.spec' container='.spec.template.spec.containers[0]'
k8s=kubernetes/base
holds $k8s/deployment.yaml "$container.readinessProbe.httpGet.path == \"/readyz\"" 'readiness is /readyz'
holds $k8s/deployment.yaml "$container.livenessProbe.httpGet.path == \"/livez\"" 'liveness is /livez'
holds $k8s/deployment.yaml "$container.startupProbe.httpGet.path == \"/readyz\"" 'a start may take its time'
holds $k8s/deployment.yaml "$container.resources | .requests.memory == .limits.memory" 'memory is reserved'
holds $k8s/deployment.yaml "$container.securityContext | .readOnlyRootFilesystem and (.allowPrivilegeEscalation | not) and .capabilities.drop == [\"ALL\"]" 'a read-only root, no rights'
holds $k8s/deployment.yaml "$pod.securityContext | .runAsNonRoot and .runAsUser == 10001 and .seccompProfile.type == \"RuntimeDefault\"" 'the user of the image'
holds $k8s/deployment.yaml "$pod.topologySpreadConstraints | length > 0" 'replicas are spread'
holds $k8s/deployment.yaml "($container.args | map(select(startswith(\"--drain-\")) | split(\"=\")[1] | tonumber) | add / 1000) < $pod.terminationGracePeriodSeconds" 'the grace period holds delay and timeout'
holds $k8s/deployment.yaml "[$container.volumeMounts[].name] - [$pod.volumes[].name] == []" 'every mount has its volume'
holds $k8s/store.yaml '.spec.accessModes == ["ReadWriteMany"]' 'the store is shared'
holds $k8s/autoscaling.yaml '[.spec.metrics[] | .resource.name // .pods.metric.name] == ["cpu", "deformd_queue_requests"]' 'scales on CPU and queue'
holds $k8s/autoscaling.yaml '.spec.scaleTargetRef.name == "deformd"' 'scales the deployment'
holds $k8s/disruption.yaml '.spec.maxUnavailable == 1' 'one at a time'
holds $k8s/network.yaml '.spec.egress == [] and (.spec.policyTypes | sort) == ["Egress", "Ingress"]' 'nothing goes out'
holds $k8s/monitoring.yaml '.spec.endpoints[0] | .path == "/metrics" and .port == "http"' 'metrics are scraped'
holds $k8s/service.yaml '.spec.ports[0].targetPort == "http"' 'the port has its name'
holds kubernetes/gpu/kustomization.yaml '.patches[0].patch | contains("nvidia.com/gpu: 1")' 'a GPU each'
holds compose.yaml '[.services | keys[] | select(startswith("deformd-"))] | length == 3' 'three replicas'
holds compose.yaml '.services["deformd-1"] | .read_only and .cap_drop == ["ALL"]' 'a read-only root, no rights'
holds prometheus.yml '.scrape_configs[0].static_configs[0].targets | length == 3' 'all replicas are scraped'
for file in $(yq -r '.resources[]' "$top/docker/$k8s/kustomization.yaml"); do
    [ -f "$top/docker/$k8s/$file" ] || { echo "manifests: $k8s/$file is missing" >&2; failed=1; }
    yq -e '.kind and .apiVersion and .metadata.name' "$top/docker/$k8s/$file" >/dev/null || failed=1
done
"$1" --help >/tmp/deformd-help.$$
trap 'rm -f /tmp/deformd-help.$$' EXIT
for flag in $(grep -rhoE '(^|[ "[])--[a-z][a-z-]+[a-z]' "$top"/docker/kubernetes "$top"/docker/compose.yaml "$top"/docker/deformd.service "$top"/docker/Dockerfile | grep -oE -- '--[a-z-]+' | sort -u); do
    case $flag in --no-install-recommends | --from | --target | --interval | --timeout | --start-period | --chown | --from-file) continue ;; esac
    grep -qE -- "^  $flag( |$)" /tmp/deformd-help.$$ || { echo "manifests: deformd has no $flag" >&2; failed=1; }
done
for metric in $(grep -oE 'deformd_[a-z_]+' "$top/docker/alerts.yml" "$top/$(echo docker/$k8s/autoscaling.yaml)" -h | sort -u); do
    grep -qF "$metric" "$top/api/metrics.c" || grep -qF "${metric#deformd_cache_}" "$top/api/metrics.c" || {
        echo "manifests: deformd has no metric $metric" >&2
        failed=1
    }
done
if command -v systemd-analyze >/dev/null; then
    sed "s|/usr/local/bin/deformd|$(realpath "$1")|" "$top/docker/deformd.service" >/tmp/deformd-$$.service
    said=$(systemd-analyze verify --man=no /tmp/deformd-$$.service 2>&1 | grep "deformd-$$" || true)
    rm -f /tmp/deformd-$$.service
    [ -z "$said" ] || { echo "manifests: deformd.service: $said" >&2; failed=1; }
fi
[ $failed = 0 ] && echo "manifests: docker/ holds what it must"
exit $failed
