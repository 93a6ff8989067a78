//! Hazards of what is selected: match, exclude, exceptions, and what decides before any expression does.

use super::{Direction, Hazard};

/// The entries.
pub(super) const HAZARDS: &[Hazard] = &[
    Hazard {
        code: "H01",
        name: "exclude-namespaces",
        direction: Direction::Stricter,
        title: "an exclusion by namespaces alone excludes Namespace objects only",
        explanation: "Kyverno excludes everything in the listed namespaces; the generated rule excludes only the \
                      Namespace objects with those names, so objects inside the namespaces are still evaluated",
        advice: "exclude them in `celPreconditions`: `!(request.namespace in ['…'])`, or select namespaces in \
                      `match` by a label with `NotIn`",
    },
    Hazard {
        code: "H02",
        name: "namespaces-lost",
        direction: Direction::Stricter,
        title: "namespaces of one match filter are lost to a later filter",
        explanation: "the native policy has one namespace selector for all rules, and each filter overwrites it; \
                      the last filter names no namespaces, so the kinds of this filter are evaluated everywhere",
        advice: "give all filters the same namespaces, or write one policy for each filter",
    },
    Hazard {
        code: "H02b",
        name: "namespaces-spread",
        direction: Direction::Weaker,
        title: "namespaces of the last match filter apply to all filters",
        explanation: "the native policy has one namespace selector for all rules, and the last filter sets it; \
                      kinds of the other filters are no longer evaluated outside its namespaces",
        advice: "give all filters the same namespaces, or write one policy for each filter",
    },
    Hazard {
        code: "H03",
        name: "namespace-selector-lost",
        direction: Direction::Stricter,
        title: "a namespace selector beside namespaces is dropped",
        explanation: "Kyverno checks both the name and the labels of the namespace; the native policy checks only \
                      the name",
        advice: "put the name into the selector: key `kubernetes.io/metadata.name`, operator `In`",
    },
    Hazard {
        code: "H04",
        name: "operations-merged",
        direction: Direction::Either,
        title: "kinds of one group and version share the operations of the first filter",
        explanation: "the generator joins kinds of the same group and version in one rule; the operations of later \
                      filters are lost",
        advice: "use the same operations for kinds of one group and version, or write one policy for each \
                      filter",
    },
    Hazard {
        code: "H05",
        name: "names-merged",
        direction: Direction::Either,
        title: "kinds of one group and version share the names of the first filter",
        explanation: "the generator joins kinds of the same group and version in one rule; the names of later \
                      filters are lost",
        advice: "use the same names for kinds of one group and version, or write one policy for each filter",
    },
    Hazard {
        code: "H06",
        name: "exclude-names-merged",
        direction: Direction::Stricter,
        title: "an excluded core kind inherits the names of excluded namespaces",
        explanation: "the rule that excludes Namespace objects by name belongs to the core group, and a later core \
                      kind is merged into it; the kind is then excluded by the names of the namespaces instead of \
                      its own",
        advice: "exclude the namespaces in `celPreconditions` instead, or write the filter with kinds before \
                      the one with namespaces",
    },
    Hazard {
        code: "H07",
        name: "exclude-names-only",
        direction: Direction::Stricter,
        title: "an exclusion by names alone is dropped",
        explanation: "Kyverno excludes objects with these names, regardless of their kind; without a kind, the \
                      generator creates no rule",
        advice: "add the kinds that `match` lists",
    },
    Hazard {
        code: "H08",
        name: "exclude-operations-only",
        direction: Direction::Stricter,
        title: "an exclusion by operations alone is dropped",
        explanation: "Kyverno excludes the operations; without a kind, the generator creates no rule, so they are \
                      still evaluated",
        advice: "list the operations to evaluate in `match` instead",
    },
    Hazard {
        code: "H09",
        name: "exclude-selector-legacy",
        direction: Direction::Weaker,
        title: "a selector directly under `exclude.resources` is dropped, and the whole kind is excluded",
        explanation: "Kyverno excludes objects that the selector matches; the generated rule excludes all objects \
                      of the kind. Under `any` or `all`, the generator would reject the policy",
        advice: "write the exclusion as a condition in `celPreconditions`, or invert the selector and move it to \
                      `match`",
    },
    Hazard {
        code: "H10",
        name: "exclude-names-in-namespaces",
        direction: Direction::Stricter,
        title: "an exclusion by names and namespaces without kinds excludes Namespace objects only",
        explanation: "Kyverno excludes objects with these names in these namespaces; the generated rule applies to \
                      Namespace objects, and the names are dropped",
        advice: "exclude them in `celPreconditions`: `!(request.namespace == '…' && request.name == '…')`",
    },
    Hazard {
        code: "H11",
        name: "namespaces-on-cluster-scope",
        direction: Direction::Stricter,
        title: "namespaces do not restrict a native policy for cluster-scoped objects",
        explanation: "for Kyverno, an object without a namespace is in none of the listed ones; the API server does \
                      not apply a namespace selector to cluster-scoped objects, so it evaluates them",
        advice: "list namespaced kinds only, or add `request.namespace != ''` to `celPreconditions`",
    },
    Hazard {
        code: "H12",
        name: "namespace-selector-on-cluster-scope",
        direction: Direction::Stricter,
        title: "a namespace selector does not restrict a native policy for cluster-scoped objects",
        explanation: "for Kyverno, an object without a namespace has a namespace without labels, which this \
                      selector does not match; the API server does not apply the selector to cluster-scoped objects",
        advice: "list namespaced kinds only, or write a separate policy for the cluster-scoped ones",
    },
    Hazard {
        code: "H13",
        name: "namespace-selector-on-namespace",
        direction: Direction::Stricter,
        title: "a namespace selector on Namespace objects",
        explanation: "Kyverno considers the selector not applicable to Namespaces and does not match them; the API \
                      server compares it with the Namespace's own labels",
        advice: "use `selector` for the labels of Namespace objects",
    },
    Hazard {
        code: "H14",
        name: "selector-on-update",
        direction: Direction::Stricter,
        title: "on UPDATE, a native policy also checks the old labels",
        explanation: "Kyverno compares the selector with the new object; the API server also matches if the old \
                      object matches, so it evaluates an update that removes the label",
        advice: "check the label of the new object in `celPreconditions`",
    },
    Hazard {
        code: "H15",
        name: "selector-wildcard",
        direction: Direction::NotInstallable,
        title: "a pattern in a label selector",
        explanation: "Kyverno expands `*` and `?` against the labels of the object; the selector is copied \
                      unchanged and the API server rejects the native policy",
        advice: "match label patterns in `celPreconditions`: `object.metadata.labels.exists(key, \
                      key.startsWith('…'))`",
    },
    Hazard {
        code: "H16",
        name: "ambiguous-kind",
        direction: Direction::NotInstallable,
        title: "the kind is served in several groups or versions",
        explanation: "Kyverno's engine matches the kind in any of them; the generator needs exactly one, and \
                      Kyverno already rejects such a policy when it is created",
        advice: "specify group, version and kind: `autoscaling/v2/HorizontalPodAutoscaler`",
    },
    Hazard {
        code: "H17",
        name: "unknown-kind",
        direction: Direction::NotInstallable,
        title: "the cluster does not serve the kind",
        explanation: "kinds are case-sensitive, `Statefulset` is not `StatefulSet`; Kyverno accepts the policy with \
                      a warning and never applies the rule, and the generator finds no resource",
        advice: "correct the spelling, or install the definition of the custom kind before the policy",
    },
    Hazard {
        code: "H18",
        name: "kind-pattern",
        direction: Direction::Weaker,
        title: "a kind pattern is resolved only once",
        explanation: "Kyverno compares the pattern with each request; the native policy lists the one resource that \
                      matches today and does not cover kinds installed later",
        advice: "list the kinds",
    },
    Hazard {
        code: "H19",
        name: "star-without-subresources",
        direction: Direction::Weaker,
        title: "kind `*` does not cover ephemeral containers in a native policy",
        explanation: "Kyverno also evaluates updates of `pods/ephemeralcontainers` for kind `*`; in a native \
                      policy, `*` means resources without their subresources",
        advice: "add the kind `Pod` in a separate policy, for which the generator adds `pods/ephemeralcontainers`",
    },
    Hazard {
        code: "H20",
        name: "kind-version",
        direction: Direction::Offline,
        title: "a kind with its version",
        explanation: "in a cluster, both sides see objects of other versions converted to this one; without a \
                      cluster, nothing converts them",
        advice: "test with objects of the version that the policy names",
    },
    Hazard {
        code: "H21",
        name: "subresource-request",
        direction: Direction::Either,
        title: "requests for subresources look different",
        explanation: "Kyverno presents the request as one for the parent: with the parent's kind and API version, \
                      no subresource and, on CONNECT, no name; the API server presents the request unchanged",
        advice: "use `request.operation`, `request.namespace` and fields of the object only; do not match \
                      subresources by name",
    },
    Hazard {
        code: "H22",
        name: "generate-name",
        direction: Direction::Offline,
        title: "objects that only have a `generateName`",
        explanation: "outside of a cluster Kyverno compares names with `generateName`, the API server's rules do \
                      not; in a cluster both see the generated name",
        advice: "give the objects of tests a name",
    },
    Hazard {
        code: "H23",
        name: "collection-delete",
        direction: Direction::Either,
        title: "names and the deletion of a whole collection",
        explanation: "items of a collection are deleted by requests without a name: Kyverno reads the name of the \
                      object, the API server compares names with the request",
        advice: "check `oldObject.metadata.name` in `celPreconditions`",
    },
    Hazard {
        code: "H24",
        name: "webhook-match-conditions",
        direction: Direction::Stricter,
        title: "match conditions of the webhook are dropped",
        explanation: "Kyverno does not apply the policy where a condition of `webhookConfiguration` is false; the \
                      generator does not read them",
        advice: "move the conditions to `celPreconditions`",
    },
    Hazard {
        code: "H25",
        name: "jmespath-preconditions",
        direction: Direction::Stricter,
        title: "preconditions with variables are dropped",
        explanation: "Kyverno skips the rule if `preconditions` do not hold; they are written in JMESPath, which \
                      native policies do not support, and the generator silently drops them",
        advice: "write them in CEL as `celPreconditions`",
    },
    Hazard {
        code: "H26",
        name: "admission-disabled",
        direction: Direction::Stricter,
        title: "a policy that is off at admission becomes one that is on",
        explanation: "with `admission: false`, Kyverno ignores admission requests; the generator ignores the field, \
                      and the native policy decides at admission",
        advice: "do not request generation if `admission` is false",
    },
    Hazard {
        code: "H27",
        name: "autogen-uncovered",
        direction: Direction::Weaker,
        title: "pod controllers are no longer covered",
        explanation: "Kyverno extends a rule for Pods to Deployments, Jobs and the other controllers; the native \
                      policy covers only Pods, and once it exists, Kyverno no longer evaluates the controllers \
                      either",
        advice: "write a policy for the controllers, or turn autogen off with the annotation \
                      `pod-policies.kyverno.io/autogen-controllers: none` to have the same on both sides",
    },
    Hazard {
        code: "H28",
        name: "kyverno-configuration",
        direction: Direction::Stricter,
        title: "Kyverno's configuration exempts requests that a native policy evaluates",
        explanation: "with the defaults of its chart Kyverno leaves out the namespaces kube-system, kube-public, \
                      kube-node-lease and its own, several kinds, and the group system:nodes; a native policy \
                      knows nothing of it",
        advice: "exclude these namespaces in the policy itself",
    },
    Hazard {
        code: "H29",
        name: "exception-operations",
        direction: Direction::Stricter,
        title: "operations of an exception are honoured by the native policy only",
        explanation: "Kyverno's engine ignores operations in an exception and exempts all of them; the generated \
                      rule exempts the listed ones",
        advice: "leave out `operations` in exceptions",
    },
    Hazard {
        code: "H30",
        name: "exception-namespaces",
        direction: Direction::Stricter,
        title: "an exception by namespaces alone exempts Namespace objects only",
        explanation: "Kyverno exempts everything in the listed namespaces; the generated rule exempts the \
                      Namespace objects of those names",
        advice: "an exception by namespace has no native counterpart: exclude the namespace in the policy's \
                      `celPreconditions`",
    },
    Hazard {
        code: "H31",
        name: "exception-rules",
        direction: Direction::Stricter,
        title: "an exception that names several rules",
        explanation: "the generator rejects the policy; if the exception is created after the native policy, \
                      nothing is regenerated and the native policy remains without the exemption",
        advice: "name one rule in each entry; for a rule and its autogen rule, use a pattern such as `*name`",
    },
    Hazard {
        code: "H32",
        name: "exceptions-merged",
        direction: Direction::Stricter,
        title: "exceptions for kinds of one group and version share the names of the first",
        explanation: "the generator joins kinds of the same group and version in one rule; the names of later \
                      exceptions are lost",
        advice: "use the same names, or put the kinds into one exception with all names",
    },
    Hazard {
        code: "H33",
        name: "exception-flags",
        direction: Direction::Weaker,
        title: "exceptions count in a native policy even where Kyverno ignores them",
        explanation: "Kyverno's engine honours exceptions only if they are enabled and lie in the configured \
                      namespace; the generator uses all of them",
        advice: "delete exceptions that should not count",
    },
];
