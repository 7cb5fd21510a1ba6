// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	configv1alpha1 "github.com/dynamo-operator/dynamo-operator/api/config/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/config"
)

// The roles that are installed with the operator. An operator of which nothing is known is taken to use them.
const (
	shippedPlannerRole = "dynamo-operator-planner"
	shippedEPPRole     = "dynamo-operator-epp"
)

// DefaultOperator is an operator that was started without a word, with the roles that are installed with it.
func DefaultOperator() Operator {
	c := config.Defaults()
	c.PlannerClusterRoleName, c.EPPClusterRoleName = shippedPlannerRole, shippedEPPRole
	return configured(c)
}

// Configured is the operator that a configuration file describes. Source is the name of the file.
func Configured(source string, content []byte) (Operator, []Problem) {
	c, errs, err := config.Decode(content)
	if err != nil {
		return Operator{}, []Problem{passage{source: source}.problem(err)}
	}
	if len(errs) == 0 {
		errs = config.Judge(c)
	}
	if len(errs) > 0 {
		return Operator{}, passage{source: source, content: content, item: alone}.problems("", ruleFields, errs)
	}
	return configured(*c), nil
}

func configured(c configv1alpha1.OperatorConfiguration) Operator {
	whole := config.Config{OperatorConfiguration: c}
	// The environment of whoever renders is not that of the operator.
	return Operator{Settings: whole.Settings(func(string) string { return "" }), Namespace: c.RestrictedNamespace}
}
