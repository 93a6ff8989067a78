//! Hazards of what expressions see: parameters, conditions, the request.

use super::{Direction, Hazard};

/// The entries.
pub(super) const HAZARDS: &[Hazard] = &[
    Hazard {
        code: "H51",
        name: "missing-param-allow",
        direction: Direction::Weaker,
        title: "a missing parameter with Allow",
        explanation: "Kyverno fails to look up the named object before it reads `parameterNotFoundAction`, and \
                      denies; the API server does not evaluate the policy and admits",
        advice: "use `Deny`, or a selector instead of the name",
    },
    Hazard {
        code: "H52",
        name: "no-params-allow",
        direction: Direction::Text,
        title: "a selector that finds no parameters, with Allow",
        explanation: "Kyverno reports a pass; the API server does not evaluate the policy. Both admit",
        advice: "nothing needs to be done",
    },
    Hazard {
        code: "H53",
        name: "no-params-ignore",
        direction: Direction::Stricter,
        title: "missing parameters with Deny under `failurePolicy: Ignore`",
        explanation: "Kyverno admits, because the policy ignores errors; the native policy always fails on them",
        advice: "use `failurePolicy: Fail` to have the same on both sides",
    },
    Hazard {
        code: "H54",
        name: "params-in-preconditions",
        direction: Direction::Stricter,
        title: "conditions on parameters where several parameters are selected",
        explanation: "Kyverno stops at the first parameter whose conditions do not hold and skips the rule; the API \
                      server evaluates each parameter separately",
        advice: "move the condition on `params` into the expressions",
    },
    Hazard {
        code: "H55",
        name: "params-of-namespaces",
        direction: Direction::Either,
        title: "parameters without a namespace, and Namespace objects",
        explanation: "for Kyverno, a Namespace object has no namespace, so it cannot look up parameters; for the \
                      API server, it is in the namespace of the same name",
        advice: "write `paramRef.namespace`",
    },
    Hazard {
        code: "H56",
        name: "variables-in-preconditions",
        direction: Direction::NotInstallable,
        title: "a condition uses variables",
        explanation: "Kyverno allows variables in `celPreconditions`; the API server does not allow them in \
                      `matchConditions` and rejects the native policy",
        advice: "write the variable's expression into the condition",
    },
    Hazard {
        code: "H57",
        name: "condition-name",
        direction: Direction::NotInstallable,
        title: "a condition has a name that the API server rejects",
        explanation: "Kyverno does not check the names of conditions; the API server requires unique qualified names",
        advice: "use letters, digits, `-`, `_` and `.` only, and no name twice",
    },
    Hazard {
        code: "H58",
        name: "vap-invalid",
        direction: Direction::NotInstallable,
        title: "the API server rejects the native policy",
        explanation: "the schema of native policies has constraints that Kyverno's lacks; Kyverno fails to create \
                      the policy, continues to decide itself, and does not report that in the status",
        advice: "fix what the message names; until then the policy works only in Kyverno",
    },
    Hazard {
        code: "H59",
        name: "namespace-of-namespace",
        direction: Direction::Weaker,
        title: "`request.namespace` of Namespace objects",
        explanation: "to Kyverno a Namespace is in no namespace and the field is absent, which is an error and \
                      denies; to the API server it is the Namespace's own name",
        advice: "use `object.metadata.name` for Namespaces, and `has(request.namespace)` elsewhere",
    },
    Hazard {
        code: "H60",
        name: "namespace-object-in-preconditions",
        direction: Direction::Equal,
        title: "`namespaceObject` in a condition is always null",
        explanation: "both sides bind it to null while they evaluate conditions, so the condition fails and every \
                      request is denied",
        advice: "use `request.namespace` or a namespace selector",
    },
    Hazard {
        code: "H61",
        name: "authorizer",
        direction: Direction::Either,
        title: "the authorizer checks different attributes",
        explanation: "Kyverno checks the request's kind, regardless of the expression, and only the user's name; \
                      the API server checks what the expression states, including groups",
        advice: "do not use `authorizer` in a ClusterPolicy",
    },
    Hazard {
        code: "H62",
        name: "cel-version",
        direction: Direction::NotInstallable,
        title: "the CEL libraries of Kyverno and of the cluster differ",
        explanation: "Kyverno ships its own, newest libraries; the cluster checks a new policy with those of its \
                      own version and rejects unknown functions",
        advice: "use functions that the oldest cluster knows",
    },
    Hazard {
        code: "H63",
        name: "cost-budget",
        direction: Direction::Equal,
        title: "cost limits",
        explanation: "both sides use the same validator with the same limits for a ClusterPolicy",
        advice: "nothing needs to be done",
    },
    Hazard {
        code: "H64",
        name: "request-details",
        direction: Direction::Either,
        title: "`request.dryRun`, `request.options` and `request.uid`",
        explanation: "Kyverno evaluates expressions with `dryRun` false, `options` null and an empty `uid`; the \
                      API server has the real values",
        advice: "do not decide by them",
    },
    Hazard {
        code: "H65",
        name: "missing-namespace",
        direction: Direction::Either,
        title: "a namespace that cannot be found",
        explanation: "Kyverno reports an error, which denies under Enforce and Fail only; for a native policy it \
                      depends on the selector",
        advice: "test with namespaces that exist",
    },
    Hazard {
        code: "H66",
        name: "annotations-only",
        direction: Direction::Equal,
        title: "a policy that only has audit annotations",
        explanation: "Kyverno passes, the native policy admits",
        advice: "nothing needs to be done",
    },
    Hazard {
        code: "H67",
        name: "default-operations",
        direction: Direction::Equal,
        title: "no operations means all of them",
        explanation: "both sides evaluate CREATE, UPDATE, DELETE and CONNECT; on DELETE, `object` is null, so an \
                      expression that reads it fails and denies on both sides",
        advice: "list the operations, or start with `request.operation == 'DELETE' ||`",
    },
    Hazard {
        code: "H68",
        name: "background",
        direction: Direction::Equal,
        title: "background scans",
        explanation: "scans are CREATE requests without a user on both sides; a native policy itself has none",
        advice: "nothing needs to be done",
    },
    Hazard {
        code: "H69",
        name: "condition-error",
        direction: Direction::Equal,
        title: "a condition that fails",
        explanation: "on both sides a false condition beats one that fails; if none is false, the error denies",
        advice: "write conditions that cannot fail",
    },
    Hazard {
        code: "H70",
        name: "user-info",
        direction: Direction::Either,
        title: "subjects and roles have no native counterpart",
        explanation: "Kyverno compares users and groups by pattern and resolves roles from bindings; a hand-made \
                      translation must use `in` for groups, because every user also has system:authenticated",
        advice: "ask in `celPreconditions`: `'dev' in request.userInfo.groups`",
    },
];
