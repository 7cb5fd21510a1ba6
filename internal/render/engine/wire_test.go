// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

// multi is a component of several nodes as a test describes it.
type multi struct {
	service       string
	framework     string
	nodes         int32
	command, args []string
	env           []corev1.EnvVar
	resources     *v1alpha1.Resources
	container     corev1.ResourceRequirements
}

// wired is what became of it.
type wired struct {
	main    corev1.Container
	volumes []corev1.Volume
	errs    field.ErrorList
}

var eightGPUs = &v1alpha1.Resources{Limits: &v1alpha1.ResourceItem{GPU: "8"}}

// shell is the command of a worker that names none.
var shell = []string{"/bin/sh", "-c"}

func (m multi) wire(o Orchestrator, r Role) wired {
	probe := func() *corev1.Probe { return &corev1.Probe{PeriodSeconds: 5} }
	main := corev1.Container{
		Name: "main", Command: m.command, Args: m.args, Env: m.env, Resources: m.container,
		LivenessProbe: probe(), ReadinessProbe: probe(), StartupProbe: probe(),
	}
	if m.nodes == 0 {
		m.nodes = 2
	}
	if m.service == "" {
		m.service = "Decode"
	}
	if m.command == nil {
		main.Command = shell
	}
	spec := &v1alpha1.DynamoComponentDeploymentSharedSpec{
		ServiceName: m.service, Resources: m.resources,
		ExtraPodSpec: &v1alpha1.ExtraPodSpec{MainContainer: &corev1.Container{Command: m.command, Args: m.args}},
	}
	c := input.Component{
		Name: "graph-" + strings.ToLower(m.service), Graph: "graph", Namespace: "prod", Spec: spec,
		Path: field.NewPath("spec", "services").Key(m.service),
	}
	volumes, errs := Wire(&main, c, m.framework, Group{Orchestrator: o, Role: r, Nodes: m.nodes, SSHSecret: "mpi-run-ssh-secret"})
	return wired{main: main, volumes: volumes, errs: errs}
}

// line is the command line in a form that reads well in a diff: command and args apart, one word per line.
func (w wired) line() string {
	return strings.Join(w.main.Command, "\n") + "\n--- args\n" + strings.Join(w.main.Args, "\n") + w.refusals()
}

func (w wired) refusals() string {
	var lines strings.Builder
	for _, err := range w.errs {
		lines.WriteString("\nrefused: " + err.Error())
	}
	return lines.String()
}

// words is the line of a wired container as a test expects it.
func words(command, args []string) string {
	return strings.Join(command, "\n") + "\n--- args\n" + strings.Join(args, "\n")
}

func host(service string) string {
	return "$(GROVE_PCSG_NAME)-$(GROVE_PCSG_INDEX)-" + service + "-ldr-0.$(GROVE_HEADLESS_SERVICE)"
}

func TestSGLangRendersTheContract(t *testing.T) {
	t.Parallel()
	const grove = "--dist-init-addr $(GROVE_PCSG_NAME)-$(GROVE_PCSG_INDEX)-decode-ldr-0.$(GROVE_HEADLESS_SERVICE):29500"
	direct := multi{framework: "sglang", resources: eightGPUs, command: []string{"python3"}, args: []string{"-m", "dynamo.sglang", "--tp", "16"}}
	script := multi{framework: "sglang", resources: eightGPUs, nodes: 3, args: []string{"python3 -m dynamo.sglang --tp 24 | tee /tmp/log"}}
	for name, tc := range map[string]struct {
		multi multi
		on    Orchestrator
		role  Role
		want  string
	}{
		"direct, Grove leader": {direct, Grove, Leader, words([]string{"python3"}, []string{
			"-m", "dynamo.sglang", "--tp", "16", "--dist-init-addr", host("decode") + ":29500", "--nnodes", "2", "--node-rank", "0"})},
		"direct, Grove worker": {direct, Grove, Worker, words([]string{"sh", "-c"}, []string{
			"exec python3 -m dynamo.sglang --tp 16 " + grove + " --nnodes 2 --node-rank $((GROVE_PCLQ_POD_INDEX + 1))"})},
		"direct, LeaderWorkerSet leader": {direct, LeaderWorkerSet, Leader, words([]string{"python3"}, []string{
			"-m", "dynamo.sglang", "--tp", "16", "--dist-init-addr", "$(LWS_LEADER_ADDRESS):29500", "--nnodes", "2", "--node-rank", "0"})},
		"direct, LeaderWorkerSet worker": {direct, LeaderWorkerSet, Worker, words([]string{"sh", "-c"}, []string{
			"exec python3 -m dynamo.sglang --tp 16 --dist-init-addr $LWS_LEADER_ADDRESS:29500 --nnodes 2 --node-rank $(LWS_WORKER_INDEX)"})},
		"script, Grove leader": {script, Grove, Leader, words(shell, []string{
			"python3 -m dynamo.sglang " + grove + " --nnodes 3 --node-rank 0 --tp 24 | tee /tmp/log"})},
		"script, Grove worker": {script, Grove, Worker, words(shell, []string{
			"python3 -m dynamo.sglang " + grove + " --nnodes 3 --node-rank $((GROVE_PCLQ_POD_INDEX + 1)) --tp 24 | tee /tmp/log"})},
		"script, LeaderWorkerSet leader": {script, LeaderWorkerSet, Leader, words(shell, []string{
			"python3 -m dynamo.sglang --dist-init-addr $LWS_LEADER_ADDRESS:29500 --nnodes 3 --node-rank 0 --tp 24 | tee /tmp/log"})},
		"script, LeaderWorkerSet worker": {script, LeaderWorkerSet, Worker, words(shell, []string{
			"python3 -m dynamo.sglang --dist-init-addr $LWS_LEADER_ADDRESS:29500 --nnodes 3 --node-rank $(LWS_WORKER_INDEX) --tp 24 | tee /tmp/log"})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, tc.multi.wire(tc.on, tc.role).line()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestVLLMRendersTheContract(t *testing.T) {
	t.Parallel()
	vllm := func(service string, args ...string) multi {
		return multi{framework: "vllm", service: service, resources: eightGPUs, command: []string{"python3", "-m", "dynamo.vllm"}, args: args}
	}
	tp := vllm("tp", "--tensor-parallel-size", "16")
	dp := vllm("dp", "--data-parallel-size", "8", "--tensor-parallel-size", "2")
	one := vllm("one", "--tensor-parallel-size", "8")
	for name, tc := range map[string]struct {
		multi multi
		on    Orchestrator
		role  Role
		want  string
	}{
		"Ray, Grove leader": {tp, Grove, Leader, words(shell, []string{
			"ray start --head --port=6379 && python3 -m dynamo.vllm --tensor-parallel-size 16 --distributed-executor-backend ray"})},
		"Ray, Grove worker":           {tp, Grove, Worker, words(shell, []string{"ray start --address=" + host("tp") + ":6379 --block"})},
		"Ray, LeaderWorkerSet worker": {tp, LeaderWorkerSet, Worker, words(shell, []string{"ray start --address=$LWS_LEADER_ADDRESS:6379 --block"})},
		"Ray through the pipeline size": {vllm("pp", "--tensor-parallel-size", "8", "--pipeline-parallel-size", "2"), Grove, Leader, words(shell, []string{
			"ray start --head --port=6379 && python3 -m dynamo.vllm --tensor-parallel-size 8 --pipeline-parallel-size 2 --distributed-executor-backend ray"})},
		"data parallel, Grove leader": {dp, Grove, Leader, words(dp.command, []string{
			"--data-parallel-size", "8", "--tensor-parallel-size", "2", "--data-parallel-hybrid-lb", "--data-parallel-size-local", "4",
			"--data-parallel-start-rank", "0", "--data-parallel-address", host("dp"), "--data-parallel-rpc-port", "13445"})},
		"data parallel, Grove worker": {dp, Grove, Worker, words([]string{"sh", "-c"}, []string{
			"exec python3 -m dynamo.vllm --data-parallel-size 8 --tensor-parallel-size 2 --data-parallel-hybrid-lb --data-parallel-size-local 4 " +
				"--data-parallel-start-rank $(( 4 * $((GROVE_PCLQ_POD_INDEX + 1)) )) --data-parallel-address " + host("dp") + " --data-parallel-rpc-port 13445"})},
		"data parallel, LeaderWorkerSet leader": {dp, LeaderWorkerSet, Leader, words(dp.command, []string{
			"--data-parallel-size", "8", "--tensor-parallel-size", "2", "--data-parallel-hybrid-lb", "--data-parallel-size-local", "4",
			"--data-parallel-start-rank", "0", "--data-parallel-address", "$(LWS_LEADER_ADDRESS)", "--data-parallel-rpc-port", "13445"})},
		"data parallel, LeaderWorkerSet worker": {dp, LeaderWorkerSet, Worker, words([]string{"sh", "-c"}, []string{
			"exec python3 -m dynamo.vllm --data-parallel-size 8 --tensor-parallel-size 2 --data-parallel-hybrid-lb --data-parallel-size-local 4 " +
				"--data-parallel-start-rank $((4 * LWS_WORKER_INDEX)) --data-parallel-address $LWS_LEADER_ADDRESS --data-parallel-rpc-port 13445"})},
		"fits on a node, leader": {one, Grove, Leader, words(one.command, one.args)},
		"fits on a node, worker": {one, Grove, Worker, words(one.command, one.args)},
		"says it fits on a node": {vllm("tiny", "-tp", "1"), Grove, Leader, words(one.command, []string{"-tp", "1"})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, tc.multi.wire(tc.on, tc.role).line()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// workerEnv is the environment of a worker of a graph called trt.
func workerEnv() []corev1.EnvVar {
	var env []corev1.EnvVar
	for name := range strings.FieldsSeq(`DYN_COMPONENT DYN_DISCOVERY_BACKEND DYN_HEALTH_CHECK_ENABLED DYN_NAMESPACE DYN_PARENT_DGD_K8S_NAME
		DYN_PARENT_DGD_K8S_NAMESPACE DYN_SYSTEM_ENABLED DYN_SYSTEM_PORT DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS ETCD_ENDPOINTS NATS_SERVER
		POD_NAME POD_NAMESPACE POD_UID`) {
		env = append(env, corev1.EnvVar{Name: name, Value: "x"})
	}
	return env
}

const (
	keys = `ls -la /ssh-pk/ && cp /ssh-pk/private.key ~/.ssh/id_rsa && cp /ssh-pk/private.key.pub ~/.ssh/id_rsa.pub && ` +
		`cp /ssh-pk/private.key.pub ~/.ssh/authorized_keys && chmod 600 ~/.ssh/id_rsa ~/.ssh/authorized_keys && ` +
		`chmod 644 ~/.ssh/id_rsa.pub ~/.ssh/authorized_keys && ` +
		`printf 'Host *\nIdentityFile ~/.ssh/id_rsa\nStrictHostKeyChecking no\nPort 2222\n' > ~/.ssh/config && `
	passing = `-x CUDA_VISIBLE_DEVICES -x DYN_COMPONENT -x DYN_DISCOVERY_BACKEND -x DYN_HEALTH_CHECK_ENABLED -x DYN_NAMESPACE -x DYN_PARENT_DGD_K8S_NAME ` +
		`-x DYN_PARENT_DGD_K8S_NAMESPACE -x DYN_SYSTEM_ENABLED -x DYN_SYSTEM_PORT -x DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS -x ETCD_ENDPOINTS ` +
		`-x HF_DATASETS_CACHE -x HF_ENDPOINT -x HF_HOME -x HF_TOKEN -x HOME -x HUGGING_FACE_HUB_TOKEN -x LD_LIBRARY_PATH -x MODEL_PATH -x NATS_SERVER ` +
		`-x NCCL_DEBUG -x NCCL_IB_DISABLE -x NCCL_P2P_DISABLE -x OMPI_MCA_orte_keep_fqdn_hostnames -x PATH -x POD_NAME -x POD_NAMESPACE -x POD_UID ` +
		`-x PYTHONPATH -x TENSORRT_LLM_CACHE_DIR -x TOKENIZERS_PARALLELISM -x TRANSFORMERS_CACHE -x TRTLLM_USE_UCX_KVCACHE -x USER`
)

func TestTensorRTRendersTheContract(t *testing.T) {
	t.Parallel()
	four := &v1alpha1.Resources{Limits: &v1alpha1.ResourceItem{GPU: "4"}}
	trt := multi{
		service: "Worker", framework: "trtllm", resources: four, env: workerEnv(),
		command: []string{"python3"}, args: []string{"-m", "dynamo.trtllm", "--model-path", "/m"},
	}
	const wait = `{ TIMEOUT=300; START_TIME=$(date +%s); for worker in $(echo "$LWS_LEADER_ADDRESS" | sed 's/\./-1\./'); do echo "Waiting for DNS: $worker"; ` +
		`until getent hosts $worker >/dev/null 2>&1; do CURRENT_TIME=$(date +%s); if [ $((CURRENT_TIME - START_TIME)) -gt $TIMEOUT ]; then ` +
		`echo "ERROR: Timeout waiting for DNS: $worker"; exit 1; fi; echo "DNS not ready for $worker, retrying..."; sleep 2; done; ` +
		`echo "✓ DNS resolved: $worker"; done; echo "All workers DNS ready"; } && `
	mpirun := func(hosts string) string {
		return `mpirun --allow-run-as-root --oversubscribe -n 8 -H ` + hosts + ` --mca pml ob1 ` +
			`--mca plm_rsh_args "-p 2222 -o StrictHostKeyChecking=no -i ~/.ssh/id_rsa" ` + passing +
			` bash -c 'trtllm-llmapi-launch python3 -m dynamo.trtllm --model-path /m'`
	}
	worker := `mkdir -p ~/.ssh ~/.ssh/host_keys ~/.ssh/run && ` + keys +
		`ssh-keygen -t rsa -f ~/.ssh/host_keys/ssh_host_rsa_key -N '' && ssh-keygen -t ecdsa -f ~/.ssh/host_keys/ssh_host_ecdsa_key -N '' && ` +
		`ssh-keygen -t ed25519 -f ~/.ssh/host_keys/ssh_host_ed25519_key -N '' && ` +
		`printf 'Port 2222\nHostKey ~/.ssh/host_keys/ssh_host_rsa_key\nHostKey ~/.ssh/host_keys/ssh_host_ecdsa_key\n` +
		`HostKey ~/.ssh/host_keys/ssh_host_ed25519_key\nPidFile ~/.ssh/run/sshd.pid\nPermitRootLogin yes\nPasswordAuthentication no\n` +
		`PubkeyAuthentication yes\nAuthorizedKeysFile ~/.ssh/authorized_keys\n' > ~/.ssh/sshd_config && /usr/sbin/sshd -D -f ~/.ssh/sshd_config`
	for name, tc := range map[string]struct {
		on   Orchestrator
		role Role
		want string
	}{
		"LeaderWorkerSet leader": {LeaderWorkerSet, Leader,
			`mkdir -p ~/.ssh && ` + keys + wait + mpirun(`$LWS_LEADER_ADDRESS,$(echo "$LWS_LEADER_ADDRESS" | sed 's/\./-1\./')`)},
		"LeaderWorkerSet worker": {LeaderWorkerSet, Worker, worker},
		"Grove leader": {Grove, Leader, `mkdir -p ~/.ssh && ` + keys +
			mpirun(host("worker")+`,$(GROVE_PCSG_NAME)-$(GROVE_PCSG_INDEX)-worker-wkr-0.$(GROVE_HEADLESS_SERVICE)`)},
		"Grove worker": {Grove, Worker, worker},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := trt.wire(tc.on, tc.role)
			if diff := cmp.Diff(words(shell, []string{tc.want}), got.line()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			last := got.main.Env[len(got.main.Env)-1]
			if diff := cmp.Diff(corev1.EnvVar{Name: "OMPI_MCA_orte_keep_fqdn_hostnames", Value: "1"}, last); diff != "" {
				t.Errorf("last variable (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]corev1.VolumeMount{{Name: "mpi-run-ssh-secret", MountPath: "/ssh-pk", ReadOnly: true}}, got.main.VolumeMounts); diff != "" {
				t.Errorf("mounts (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]corev1.Volume{{Name: "mpi-run-ssh-secret", VolumeSource: corev1.VolumeSource{
				Secret: &corev1.SecretVolumeSource{SecretName: "mpi-run-ssh-secret", DefaultMode: ptr.To[int32](0o644)},
			}}}, got.volumes); diff != "" {
				t.Errorf("volumes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAVariableOfTheUserIsNotSetTwice(t *testing.T) {
	t.Parallel()
	own := []corev1.EnvVar{{Name: "OMPI_MCA_orte_keep_fqdn_hostnames", Value: "0"}}
	got := multi{framework: "trtllm", resources: eightGPUs, env: own, args: []string{"python3 -m dynamo.trtllm"}}.wire(Grove, Leader)
	if diff := cmp.Diff(own, got.main.Env); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWorkersLoseTheProbesOfAServer(t *testing.T) {
	t.Parallel()
	ssh := &corev1.Probe{
		ProbeHandler:        corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(2222)}},
		InitialDelaySeconds: 20, PeriodSeconds: 20, TimeoutSeconds: 5, FailureThreshold: 10,
	}
	kept := &corev1.Probe{PeriodSeconds: 5}
	start := func(framework string) []string {
		return []string{"python3 -m dynamo." + framework + " --tensor-parallel-size 16"}
	}
	own := []string{"python3 -m dynamo.trtllm --node $LWS_WORKER_INDEX"}
	for name, tc := range map[string]struct {
		framework                    string
		args                         []string
		role                         Role
		liveness, readiness, startup *corev1.Probe
	}{
		"sglang leader":         {"sglang", start("sglang"), Leader, kept, kept, kept},
		"sglang worker":         {"sglang", start("sglang"), Worker, nil, nil, nil},
		"vllm leader":           {"vllm", start("vllm"), Leader, kept, kept, kept},
		"vllm worker":           {"vllm", start("vllm"), Worker, nil, nil, nil},
		"vllm worker, alone":    {"vllm", []string{"python3 -m dynamo.vllm -tp 8"}, Worker, nil, nil, nil},
		"trtllm leader":         {"trtllm", start("trtllm"), Leader, kept, kept, kept},
		"trtllm worker":         {"trtllm", start("trtllm"), Worker, nil, ssh, nil},
		"trtllm worker, own":    {"trtllm", own, Worker, nil, nil, nil}, // nothing says that it listens on that port
		"unknown engine worker": {None, start("other"), Worker, kept, kept, kept},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := multi{framework: tc.framework, resources: eightGPUs, args: tc.args}.wire(LeaderWorkerSet, tc.role)
			if got.errs != nil {
				t.Fatal(got.errs.ToAggregate())
			}
			want := []*corev1.Probe{tc.liveness, tc.readiness, tc.startup}
			if diff := cmp.Diff(want, []*corev1.Probe{got.main.LivenessProbe, got.main.ReadinessProbe, got.main.StartupProbe}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatTheUserWiredIsLeftAlone(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"LeaderWorkerSet address": {"/start.sh $LWS_LEADER_ADDRESS"},
		"LeaderWorkerSet index":   {"/start.sh", "$(LWS_WORKER_INDEX)"},
		"Grove replica":           {"/start.sh $(GROVE_PCSG_NAME)-$(GROVE_PCSG_INDEX)"},
		"Grove subdomain":         {"/start.sh ${GROVE_HEADLESS_SERVICE}"},
		"Grove index":             {"python3 -m dynamo.sglang --node-rank $((GROVE_PCLQ_POD_INDEX + 1))"},
	} {
		for _, framework := range known {
			for _, role := range []Role{Leader, Worker} {
				got := multi{framework: framework, args: args}.wire(LeaderWorkerSet, role)
				if diff := cmp.Diff(words(shell, args), got.line()); diff != "" {
					t.Errorf("%s, %s (-want +got):\n%s", name, framework, diff)
				}
			}
		}
	}
}

func TestVLLMThatTheUserSpreadsIsLeftAlone(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"own Ray":         {"if [ $N = 0 ]; then ray start --head; python3 -m dynamo.vllm -tp=16; else ray start --address=$A --block; fi"},
		"own addresses":   {"python3 -m dynamo.vllm -dp 16 --data-parallel-address $A -dpr $R"},
		"own single rank": {"python3 -m dynamo.vllm -dp 16 -tp 2 -dpa=h --data-parallel-rank=$(R)"},
	} {
		for _, role := range []Role{Leader, Worker} {
			got := multi{framework: "vllm", resources: eightGPUs, args: args}.wire(LeaderWorkerSet, role)
			if diff := cmp.Diff(words(shell, args), got.line()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
}

func TestAnUnknownEngineIsLeftAlone(t *testing.T) {
	t.Parallel()
	m := multi{framework: None, args: []string{"/start.sh"}}
	got := m.wire(Grove, Worker)
	if diff := cmp.Diff(words(shell, m.args), got.line()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.volumes != nil {
		t.Errorf("volumes %v, want none", got.volumes)
	}
}

func TestOnlyTensorRTNeedsKeys(t *testing.T) {
	t.Parallel()
	for framework, want := range map[string]bool{"vllm": false, "sglang": false, "trtllm": true, None: false} {
		if got := NeedsSSH(framework); got != want {
			t.Errorf("%s: got %t, want %t", framework, got, want)
		}
	}
}
