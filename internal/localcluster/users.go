// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Actors every cluster knows. Each has a client certificate of its own, so that audit records tell them apart.
const (
	UserAdmin    = "admin"
	UserOperator = "dynamo-operator"
	// UserSimulator plays controllers and kubelets in tests; it may do everything.
	UserSimulator = "simulator"
	// UserUser is a person who deploys graphs: the built-in role "edit" and nothing more.
	UserUser = "user"

	userControllerManager = "kube-controller-manager"
	userScheduler         = "kube-scheduler"
	userKwok              = "kwok"
	userLWS               = "lws"
)

// User is an actor with a kubeconfig.
type User struct {
	// Name is how the actor is called here, Identity how the API server knows it.
	Name       string   `json:"name"`
	Identity   string   `json:"identity"`
	Groups     []string `json:"groups,omitempty"`
	Kubeconfig string   `json:"kubeconfig"`
}

// builtinUsers lists the actors of every cluster. The identities of the two system components are those that
// Kubernetes' own RBAC rules are bound to.
func builtinUsers() []User {
	masters := []string{"system:masters"}
	return []User{
		{Name: UserAdmin, Identity: UserAdmin, Groups: masters},
		{Name: UserOperator, Identity: UserOperator},
		{Name: UserSimulator, Identity: UserSimulator, Groups: masters},
		{Name: UserUser, Identity: UserUser},
		{Name: userControllerManager, Identity: "system:kube-controller-manager"},
		{Name: userScheduler, Identity: "system:kube-scheduler"},
		{Name: userKwok, Identity: userKwok},
		{Name: userLWS, Identity: userLWS},
	}
}

// AddUser gives an actor of that name a certificate and returns the path of its kubeconfig. What the actor may do is
// decided by RBAC objects that name it or its groups.
func (c *Cluster) AddUser(name string, groups ...string) (string, error) {
	if name == "" || strings.ContainsAny(name, `/\`) {
		return "", fmt.Errorf("user name %q cannot be used in a file name", name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	user, err := c.issueUser(User{Name: name, Identity: name, Groups: groups})
	if err != nil {
		return "", err
	}
	c.record.Users = slices.DeleteFunc(c.record.Users, func(u User) bool { return u.Name == name })
	c.record.Users = append(c.record.Users, user)
	return user.Kubeconfig, c.record.save(c.opts.StateDir)
}

// issueUsers writes a kubeconfig for every built-in actor and for those added in an earlier run of the same state.
func (c *Cluster) issueUsers(earlier []User) error {
	users := builtinUsers()
	for _, user := range earlier {
		if !slices.ContainsFunc(users, func(u User) bool { return u.Name == user.Name }) {
			users = append(users, user)
		}
	}
	for i := range users {
		user, err := c.issueUser(users[i])
		if err != nil {
			return err
		}
		users[i] = user
	}
	c.record.Users = users
	return nil
}

func (c *Cluster) issueUser(user User) (User, error) {
	pair, err := c.pki.cluster.issue(subject{name: user.Identity, groups: user.Groups}, c.opts.Now())
	if err != nil {
		return user, fmt.Errorf("issue certificate of user %s: %w", user.Name, err)
	}
	user.Kubeconfig = kubeconfigPath(c.opts.StateDir, user.Name)
	if err := os.MkdirAll(filepath.Dir(user.Kubeconfig), 0o700); err != nil {
		return user, fmt.Errorf("create directory of kubeconfigs: %w", err)
	}
	content, err := clientcmd.Write(kubeconfigFor(user.Name, kubeconfigTarget{
		cluster: "dynamo-local-" + c.opts.Name, server: c.record.Server, authority: c.pki.cluster.cert, pair: pair,
	}))
	if err != nil {
		return user, fmt.Errorf("encode kubeconfig of user %s: %w", user.Name, err)
	}
	return user, writeFileAtomically(user.Kubeconfig, content, 0o600)
}

type kubeconfigTarget struct {
	cluster   string
	server    string
	authority []byte
	pair      keyPair
}

func kubeconfigFor(user string, t kubeconfigTarget) clientcmdapi.Config {
	config := clientcmdapi.NewConfig()
	config.Clusters[t.cluster] = &clientcmdapi.Cluster{Server: t.server, CertificateAuthorityData: t.authority}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: t.pair.cert, ClientKeyData: t.pair.key}
	config.Contexts[t.cluster] = &clientcmdapi.Context{Cluster: t.cluster, AuthInfo: user}
	config.CurrentContext = t.cluster
	return *config
}

// kubeconfigPath puts the administrator's file where people look first and the others in a directory.
func kubeconfigPath(stateDir, user string) string {
	if user == UserAdmin {
		return filepath.Join(stateDir, kubeconfigFile)
	}
	return filepath.Join(stateDir, "users", user+".kubeconfig")
}

// Kubeconfig returns the path of the kubeconfig of user.
func (c *Cluster) Kubeconfig(user string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.record.kubeconfig(user)
}

func (r *Record) kubeconfig(user string) (string, error) {
	var known []string
	for _, u := range r.Users {
		if u.Name == user {
			return u.Kubeconfig, nil
		}
		known = append(known, u.Name)
	}
	return "", fmt.Errorf("cluster %s has no user %q; it has %s", r.Name, user, strings.Join(known, ", "))
}

// RESTConfig returns a client configuration that acts as user.
func (c *Cluster) RESTConfig(user string) (*rest.Config, error) {
	path, err := c.Kubeconfig(user)
	if err != nil {
		return nil, err
	}
	return LoadRESTConfig(path)
}

// LoadRESTConfig reads a kubeconfig and removes the client-side rate limit: the API server has a fair one of its own,
// and a client that throttles itself makes measurements lie.
func LoadRESTConfig(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", kubeconfig, err)
	}
	config.QPS = -1
	return config, nil
}
