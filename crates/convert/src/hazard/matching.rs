//! Hazards of what is selected: match, exclude, exceptions, and what decides before any expression does.

use super::{Direction, Hazard};

/// The entries.
pub(super) const HAZARDS: &[Hazard] = &[
    Hazard {
        code: "H01",
        name: "exclude-namespaces",
        direction: Direction::Stricter,
        title: "an exclusion by namespaces alone excludes Namespace objects only",
        explanation: "Kyverno leaves out everything in the listed namespaces; the generated rule leaves out the \
                      Namespace objects of those names, and objects inside the namespaces are judged",
        advice: "exclude by `celPreconditions`: `!(request.namespace in ['…'])`, or select namespaces in \
                      `match` by a label with `NotIn`",
    },
    Hazard {
        code: "H02",
        name: "namespaces-lost",
        direction: Direction::Stricter,
        title: "namespaces of one match filter are lost to a later filter",
        explanation: "the native policy has one namespace selector for all rules, and each filter overwrites it; \
                      the last filter names no namespaces, so the kinds of this filter are judged everywhere",
        advice: "give all filters the same namespaces, or write one policy for each filter",
    },
    Hazard {
        code: "H02b",
        name: "namespaces-spread",
        direction: Direction::Weaker,
        title: "namespaces of the last match filter bind all filters",
        explanation: "the native policy has one namespace selector for all rules, and the last filter sets it; \
                      kinds of the other filters are no longer judged outside of its namespaces",
        advice: "give all filters the same namespaces, or write one policy for each filter",
    },
    Hazard {
        code: "H03",
        name: "namespace-selector-lost",
        direction: Direction::Stricter,
        title: "a namespace selector beside namespaces is dropped",
        explanation: "Kyverno asks for both the name and the labels of the namespace; the native policy asks for \
                      the name only",
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
        title: "an excluded core kind takes over the names of excluded namespaces",
        explanation: "the rule that excludes Namespace objects by name is of the core group, and a core kind that \
                      follows joins it; the kind is then excluded under the names of the namespaces instead of its \
                      own",
        advice: "exclude the namespaces in `celPreconditions` instead, or write the filter with kinds before \
                      the one with namespaces",
    },
    Hazard {
        code: "H07",
        name: "exclude-names-only",
        direction: Direction::Stricter,
        title: "an exclusion by names alone is dropped",
        explanation: "Kyverno leaves out objects of these names whatever their kind; without a kind the generator \
                      makes no rule",
        advice: "add the kinds that `match` lists",
    },
    Hazard {
        code: "H08",
        name: "exclude-operations-only",
        direction: Direction::Stricter,
        title: "an exclusion by operations alone is dropped",
        explanation: "Kyverno leaves out the operations; without a kind the generator makes no rule, so they are \
                      judged",
        advice: "list the operations that shall be judged in `match` instead",
    },
    Hazard {
        code: "H09",
        name: "exclude-selector-legacy",
        direction: Direction::Weaker,
        title: "a selector right under `exclude.resources` is dropped, and the whole kind is excluded",
        explanation: "Kyverno leaves out objects that the selector fits; the generated rule leaves out all objects \
                      of the kind. Under `any` or `all` the generator would refuse the policy",
        advice: "write the exclusion as a condition in `celPreconditions`, or turn the selector round and put \
                      it into `match`",
    },
    Hazard {
        code: "H10",
        name: "exclude-names-in-namespaces",
        direction: Direction::Stricter,
        title: "an exclusion by names and namespaces without kinds excludes Namespace objects only",
        explanation: "Kyverno leaves out objects of these names in these namespaces; the generated rule is about \
                      Namespace objects, and the names are dropped",
        advice: "exclude by `celPreconditions`: `!(request.namespace == '…' && request.name == '…')`",
    },
    Hazard {
        code: "H11",
        name: "namespaces-on-cluster-scope",
        direction: Direction::Stricter,
        title: "namespaces do not hold back a native policy from cluster-scoped objects",
        explanation: "an object without a namespace is in none of those that Kyverno lists; the API server does \
                      not apply a namespace selector to cluster-scoped objects, so they are judged",
        advice: "list namespaced kinds only, or add `request.namespace != ''` to `celPreconditions`",
    },
    Hazard {
        code: "H12",
        name: "namespace-selector-on-cluster-scope",
        direction: Direction::Stricter,
        title: "a namespace selector does not hold back a native policy from cluster-scoped objects",
        explanation: "to Kyverno an object without a namespace has a namespace without labels, which this selector \
                      does not fit; the API server does not apply the selector to cluster-scoped objects",
        advice: "list namespaced kinds only, or write a policy of its own for the cluster-scoped ones",
    },
    Hazard {
        code: "H13",
        name: "namespace-selector-on-namespace",
        direction: Direction::Stricter,
        title: "a namespace selector on Namespace objects",
        explanation: "Kyverno holds the selector to be not applicable to Namespaces and leaves them alone; the API \
                      server compares it with the Namespace's own labels",
        advice: "use `selector` for the labels of Namespace objects",
    },
    Hazard {
        code: "H14",
        name: "selector-on-update",
        direction: Direction::Stricter,
        title: "on UPDATE a native policy also looks at the old labels",
        explanation: "Kyverno compares the selector with the new object; the API server also matches if the old \
                      object fits, so an update that takes the label away is judged",
        advice: "ask for the label of the new object in `celPreconditions`",
    },
    Hazard {
        code: "H15",
        name: "selector-wildcard",
        direction: Direction::NotInstallable,
        title: "a pattern in a label selector",
        explanation: "Kyverno expands `*` and `?` against the labels of the object; the selector is copied as it \
                      is and the API server refuses the native policy",
        advice: "ask for labels by pattern in `celPreconditions`: `object.metadata.labels.exists(key, \
                      key.startsWith('…'))`",
    },
    Hazard {
        code: "H16",
        name: "ambiguous-kind",
        direction: Direction::NotInstallable,
        title: "the kind is served in several groups or versions",
        explanation: "Kyverno's engine matches the kind in any of them; the generator wants exactly one, and \
                      Kyverno refuses a policy of this form already when it is created",
        advice: "write group, version and kind: `autoscaling/v2/HorizontalPodAutoscaler`",
    },
    Hazard {
        code: "H17",
        name: "unknown-kind",
        direction: Direction::NotInstallable,
        title: "the cluster does not serve the kind",
        explanation: "kinds are compared letter by letter, `Statefulset` is not `StatefulSet`; Kyverno accepts the \
                      policy with a warning and never applies the rule, the generator finds no resource",
        advice: "correct the spelling, or install the definition of the custom kind before the policy",
    },
    Hazard {
        code: "H18",
        name: "kind-pattern",
        direction: Direction::Weaker,
        title: "a pattern of kinds is resolved once",
        explanation: "Kyverno compares the pattern with each request; the native policy lists the one resource \
                      that fits today, and a kind that is installed later is not covered",
        advice: "list the kinds",
    },
    Hazard {
        code: "H19",
        name: "star-without-subresources",
        direction: Direction::Weaker,
        title: "kind `*` does not cover ephemeral containers in a native policy",
        explanation: "Kyverno also judges updates of `pods/ephemeralcontainers` for kind `*`; in a native policy \
                      `*` stands for resources without their subresources",
        advice: "add the kind `Pod` in a policy of its own, for which the generator adds \
                      `pods/ephemeralcontainers`",
    },
    Hazard {
        code: "H20",
        name: "kind-version",
        direction: Direction::Offline,
        title: "a kind with its version",
        explanation: "in a cluster both sides see objects of the other versions converted to this one; without a \
                      cluster nothing converts them",
        advice: "test with objects of the version that the policy names",
    },
    Hazard {
        code: "H21",
        name: "subresource-request",
        direction: Direction::Either,
        title: "requests for subresources look different",
        explanation: "to Kyverno the request is about the parent: kind and API version of the parent, no \
                      subresource, on CONNECT no name; the API server shows the request as it is",
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
        advice: "ask for `oldObject.metadata.name` in `celPreconditions`",
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
        explanation: "Kyverno skips the rule where `preconditions` do not hold; they are written in JMESPath, \
                      which no native policy knows, and the generator drops them without a word",
        advice: "write them in CEL as `celPreconditions`",
    },
    Hazard {
        code: "H26",
        name: "admission-disabled",
        direction: Direction::Stricter,
        title: "a policy that is off at admission becomes one that is on",
        explanation: "Kyverno does not look at requests with `admission: false`; the generator does not read it, \
                      and the native policy decides at admission",
        advice: "do not ask for generation where `admission` is false",
    },
    Hazard {
        code: "H27",
        name: "autogen-uncovered",
        direction: Direction::Weaker,
        title: "pod controllers are no longer covered",
        explanation: "Kyverno extends a rule for Pods to Deployments, Jobs and the other controllers; the native \
                      policy is about Pods only, and once it exists Kyverno leaves the controllers alone, too",
        advice: "write a policy for the controllers, or turn autogen off with the annotation \
                      `pod-policies.kyverno.io/autogen-controllers: none` to have the same on both sides",
    },
    Hazard {
        code: "H28",
        name: "kyverno-configuration",
        direction: Direction::Stricter,
        title: "Kyverno's configuration exempts requests that a native policy judges",
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
        explanation: "the generator refuses the policy; if the exception comes after the native policy, nothing is \
                      regenerated and the native policy goes on without the exemption",
        advice: "name one rule in each entry; for a rule and its autogen twin use a pattern such as `*name`",
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
        advice: "delete exceptions that shall not count",
    },
];
