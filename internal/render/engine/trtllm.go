// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

const (
	sshPort     = 2222
	keysPath    = "/ssh-pk"
	keysMode    = 0o644
	mpiLauncher = "trtllm-llmapi-launch "
	// keepDomains makes Open MPI tell pods apart by their full names: short ones repeat from group to group.
	keepDomains = "OMPI_MCA_orte_keep_fqdn_hostnames"
)

// passedOn are the variables that every rank gets from the leader's environment, beside those of the container.
var passedOn = []string{
	"CUDA_VISIBLE_DEVICES", "HF_DATASETS_CACHE", "HF_ENDPOINT", "HF_HOME", "HF_TOKEN", "HOME", "HUGGING_FACE_HUB_TOKEN",
	"LD_LIBRARY_PATH", "MODEL_PATH", "NCCL_DEBUG", "NCCL_IB_DISABLE", "NCCL_P2P_DISABLE", "PATH", "PYTHONPATH",
	"TENSORRT_LLM_CACHE_DIR", "TOKENIZERS_PARALLELISM", "TRANSFORMERS_CACHE", "TRTLLM_USE_UCX_KVCACHE", "USER",
}

// trtllm runs on the leader, which starts one rank per GPU through mpirun. Workers are SSH servers.
type trtllm struct{}

func (e trtllm) connect(n node) field.ErrorList {
	if n.group.Role == Worker {
		n.main.ReadinessProbe = &corev1.Probe{
			ProbeHandler:        corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(sshPort)}},
			InitialDelaySeconds: 20, PeriodSeconds: 20, TimeoutSeconds: 5, FailureThreshold: 10,
		}
		places := []string{"mkdir -p ~/.ssh ~/.ssh/host_keys ~/.ssh/run"}
		n.runInShell("/bin/sh", strings.Join(slices.Concat(places, keySteps(), serverSteps()), " && "))
		return nil
	}
	program, ok := e.program(n)
	if !ok {
		return n.lonely()
	}
	gpus, err := n.gpusFor(e.ranks(n))
	if err != nil {
		return field.ErrorList{err}
	}
	steps := append([]string{"mkdir -p ~/.ssh"}, keySteps()...)
	if n.group.Orchestrator == LeaderWorkerSet {
		steps = append(steps, waitForHosts(n.workerHosts()))
	}
	hosts := strings.Join(append([]string{n.leaderHost(true)}, n.workerHosts()...), ",")
	steps = append(steps, fmt.Sprintf("mpirun --allow-run-as-root --oversubscribe -n %d -H %s --mca pml ob1 "+
		`--mca plm_rsh_args "-p %d -o StrictHostKeyChecking=no -i ~/.ssh/id_rsa" %s bash -c %s`,
		gpus*int(n.group.Nodes), hosts, sshPort, e.environment(n), program))
	n.runInShell("/bin/sh", strings.Join(steps, " && "))
	return nil
}

// ranks is how many ranks the command line asks for, 0 if it does not say.
func (trtllm) ranks(n node) int {
	tensor, wide := n.size("--tensor-parallel-size", "--tp-size")
	pipeline, deep := n.size("--pipeline-parallel-size", "--pp-size")
	if !wide && !deep {
		return 0
	}
	return tensor * pipeline
}

// environment is the part of mpirun's command line that passes variables on.
func (trtllm) environment(n node) string {
	passed := slices.Clone(passedOn)
	for _, e := range n.main.Env {
		passed = append(passed, variables(nil).quote(e.Name))
	}
	slices.Sort(passed)
	return "-x " + strings.Join(slices.Compact(passed), " -x ")
}

// program is what each rank runs, as one word of shell text.
func (trtllm) program(n node) (string, bool) {
	v := variablesOf(n.main)
	l := n.line().withoutExec()
	script := l.script()
	switch {
	case l.isEmpty():
		return "", false
	case script >= 0 && !l.isPython():
		l = l.withRest(script, v)
		if text := l.words[script]; script+1 == len(l.words) && beginsWithProgram(text, n.framework) {
			return embedded(mpiLauncher + text), true
		}
	}
	return quoted(mpiLauncher + l.text(v, n.framework)), true
}

// beginsWithProgram tells whether a launcher can be put in front of a script: its first word has to be a program that the
// launcher can run, and if it starts the engine, it has to do so at once.
func beginsWithProgram(script, framework string) bool {
	shellOnly := []string{
		"!", ".", ":", "[", "[[", "alias", "case", "cd", "declare", "echo", "eval", "exec", "export", "for", "function", "if", "local", "printf",
		"read", "readonly", "set", "shift", "shopt", "source", "test", "time", "trap", "true", "type", "ulimit", "umask", "unset", "until", "wait", "while",
	}
	fields := strings.Fields(script)
	if len(fields) == 0 || slices.Contains(shellOnly, fields[0]) || strings.ContainsAny(fields[0], "(){}=") {
		return false
	}
	if at := launches[framework].FindStringIndex(script); at != nil {
		return !strings.ContainsAny(script[:at[0]], "|&;\n")
	}
	return true
}

// mountKeys gives the node the key pair with which the nodes log in to each other.
func (n node) mountKeys() []corev1.Volume {
	secret := n.group.SSHSecret
	// Lists are copied before they grow: other pods may have been given the same ones.
	n.main.VolumeMounts = append(slices.Clone(n.main.VolumeMounts), corev1.VolumeMount{Name: secret, MountPath: keysPath, ReadOnly: true})
	if !slices.ContainsFunc(n.main.Env, func(e corev1.EnvVar) bool { return e.Name == keepDomains }) {
		n.main.Env = append(slices.Clone(n.main.Env), corev1.EnvVar{Name: keepDomains, Value: "1"})
	}
	return []corev1.Volume{{Name: secret, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: secret, DefaultMode: ptr.To[int32](keysMode)},
	}}}
}

// keySteps put the key pair where ssh looks for it. A mounted Secret cannot have the permissions that ssh insists on.
func keySteps() []string {
	private, public := keysPath+"/"+names.SSHPrivateKey, keysPath+"/"+names.SSHPublicKey
	return []string{
		"ls -la " + keysPath + "/",
		"cp " + private + " ~/.ssh/id_rsa",
		"cp " + public + " ~/.ssh/id_rsa.pub",
		"cp " + public + " ~/.ssh/authorized_keys",
		"chmod 600 ~/.ssh/id_rsa ~/.ssh/authorized_keys",
		"chmod 644 ~/.ssh/id_rsa.pub ~/.ssh/authorized_keys",
		fmt.Sprintf(`printf 'Host *\nIdentityFile ~/.ssh/id_rsa\nStrictHostKeyChecking no\nPort %d\n' > ~/.ssh/config`, sshPort),
	}
}

// serverSteps run an SSH server with host keys of its own.
func serverSteps() []string {
	var steps []string
	settings := []string{fmt.Sprintf("Port %d", sshPort)}
	for _, kind := range []string{"rsa", "ecdsa", "ed25519"} {
		key := fmt.Sprintf("~/.ssh/host_keys/ssh_host_%s_key", kind)
		steps = append(steps, fmt.Sprintf("ssh-keygen -t %s -f %s -N ''", kind, key))
		settings = append(settings, "HostKey "+key)
	}
	settings = append(settings, "PidFile ~/.ssh/run/sshd.pid", "PermitRootLogin yes", "PasswordAuthentication no",
		"PubkeyAuthentication yes", "AuthorizedKeysFile ~/.ssh/authorized_keys")
	text := strings.Join(settings, `\n`) + `\n`
	return append(steps, "printf '"+text+"' > ~/.ssh/sshd_config", "/usr/sbin/sshd -D -f ~/.ssh/sshd_config")
}

// waitForHosts waits until the workers have names: mpirun gives up at once on a host that has none. It is one group, so
// that nothing of it runs after a step before it has failed.
func waitForHosts(hosts []string) string {
	return `{ TIMEOUT=300; START_TIME=$(date +%s); for worker in ` + strings.Join(hosts, " ") +
		`; do echo "Waiting for DNS: $worker"; until getent hosts $worker >/dev/null 2>&1; do CURRENT_TIME=$(date +%s); ` +
		`if [ $((CURRENT_TIME - START_TIME)) -gt $TIMEOUT ]; then echo "ERROR: Timeout waiting for DNS: $worker"; exit 1; fi; ` +
		`echo "DNS not ready for $worker, retrying..."; sleep 2; done; echo "✓ DNS resolved: $worker"; done; ` +
		`echo "All workers DNS ready"; }`
}
