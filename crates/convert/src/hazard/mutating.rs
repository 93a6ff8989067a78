//! Hazards of MutatingPolicies. There is no `M19`.

use super::{Direction, Hazard};

/// The entries.
pub(super) const HAZARDS: &[Hazard] = &[
    Hazard {
        code: "M01",
        name: "mutation-selectors-dropped",
        direction: Direction::Either,
        title: "selectors and exclude rules are not copied",
        explanation: "Kyverno honours `namespaceSelector`, `objectSelector` and `excludeResourceRules`; the \
                      native policy also changes, or refuses, objects that they leave out",
        advice: "write the restriction as a match condition",
    },
    Hazard {
        code: "M02",
        name: "mutation-namespace-object",
        direction: Direction::Stricter,
        title: "`namespaceObject` in a match condition",
        explanation: "Kyverno evaluates it; in match conditions of the native policy it is null, so that the \
                      condition fails and every request is denied",
        advice: "use `namespaceObject` in variables or mutations, or check `request.namespace`",
    },
    Hazard {
        code: "M03",
        name: "mutation-variables-repeated",
        direction: Direction::Either,
        title: "a variable over the object is evaluated again for each mutation",
        explanation: "Kyverno evaluates a variable once for all mutations; the API server evaluates it for \
                      each mutation on the object as it then is",
        advice: "use the variable in one mutation only",
    },
    Hazard {
        code: "M04",
        name: "mutation-ignore-partial",
        direction: Direction::Either,
        title: "`failurePolicy: Ignore` loses one mutation, not all",
        explanation: "Kyverno makes no change if a mutation fails; the native policy makes those that do not \
                      fail",
        advice: "write mutations that cannot fail, or one mutation only",
    },
    Hazard {
        code: "M05",
        name: "mutation-targets",
        direction: Direction::Either,
        title: "`targetMatchConstraints` are not copied",
        explanation: "Kyverno leaves the object of the request alone and changes the targets; the native \
                      policy changes the object of the request",
        advice: "keep the policy with Kyverno",
    },
    Hazard {
        code: "M06",
        name: "mutation-admission-disabled",
        direction: Direction::Either,
        title: "the native policy acts at admission",
        explanation: "Kyverno does not, with `evaluation.admission.enabled: false`; the generator drops the \
                      switch",
        advice: "keep the policy with Kyverno",
    },
    Hazard {
        code: "M07",
        name: "mutation-exception-split",
        direction: Direction::Weaker,
        title: "an exception with several conditions exempts if any of them holds",
        explanation: "Kyverno exempts if all conditions hold; the generator negates each one separately, so \
                      one that holds is enough",
        advice: "write one condition with `&&`",
    },
    Hazard {
        code: "M08",
        name: "mutation-exception-without-conditions",
        direction: Direction::Either,
        title: "an exception without conditions is dropped",
        explanation: "Kyverno exempts every request; the generator adds nothing to the native policy",
        advice: "write a condition: `expression: 'true'`",
    },
    Hazard {
        code: "M09",
        name: "mutation-exception-kind",
        direction: Direction::Weaker,
        title: "an exception for a policy of another kind also counts",
        explanation: "Kyverno compares name and kind; the generator compares the name only",
        advice: "give policies of different kinds different names",
    },
    Hazard {
        code: "M10",
        name: "mutation-exception-values",
        direction: Direction::Weaker,
        title: "an exception with allowed images or values exempts",
        explanation: "Kyverno runs the policy and allows the values; the native policy is skipped if the \
                      conditions hold",
        advice: "check the values in the policy itself",
    },
    Hazard {
        code: "M11",
        name: "mutation-exception-error",
        direction: Direction::Weaker,
        title: "one broken exception among several",
        explanation: "Kyverno denies the request if the condition of an exception fails; in the native \
                      policy an exception that applies wins over the error",
        advice: "write conditions that cannot fail",
    },
    Hazard {
        code: "M12",
        name: "mutation-old-object-null",
        direction: Direction::Either,
        title: "`oldObject` compared with null",
        explanation: "Kyverno binds an empty map on CREATE; the native policy null",
        advice: "use `has(oldObject.metadata)` or `request.operation`",
    },
    Hazard {
        code: "M13",
        name: "mutation-delete-wildcard",
        direction: Direction::Weaker,
        title: "`DELETE` under `*`",
        explanation: "Kyverno evaluates the policy on a DELETE and denies it, because there is no object; \
                      the native policy never sees it",
        advice: "list the operations",
    },
    Hazard {
        code: "M14",
        name: "mutation-unknown-field",
        direction: Direction::Stricter,
        title: "a JSONPatch that adds an unknown field",
        explanation: "Kyverno's patch is decoded without strictness and the field is dropped; the API server \
                      refuses the request, also with `failurePolicy: Ignore`",
        advice: "patch fields that the kind has",
    },
    Hazard {
        code: "M15",
        name: "mutation-kind-removed",
        direction: Direction::Weaker,
        title: "a JSONPatch that removes `kind` or `apiVersion`",
        explanation: "Kyverno cannot decode the object and denies the request; the API server fills the \
                      field in",
        advice: "leave both fields alone",
    },
    Hazard {
        code: "M16",
        name: "mutation-reinvocation",
        direction: Direction::Either,
        title: "`reinvocationPolicy: IfNeeded` runs mutations twice",
        explanation: "Kyverno ignores the field; the API server runs the mutations again after any change",
        advice: "write idempotent mutations, or `Never`",
    },
    Hazard {
        code: "M17",
        name: "mutation-normalised-between",
        direction: Direction::Either,
        title: "the object is decoded and defaulted between mutations",
        explanation: "Kyverno hands the JSON from one mutation to the next; the API server decodes it and \
                      sets defaults, so that empty values vanish and defaults appear",
        advice: "write one mutation, with all operations in one JSONPatch",
    },
    Hazard {
        code: "M18",
        name: "mutation-integer-overflow",
        direction: Direction::Text,
        title: "an integer that does not fit its field",
        explanation: "Kyverno's patch cannot be decoded; in the native policy the value wraps and validation \
                      refuses it",
        advice: "write a value that the field can hold",
    },
    Hazard {
        code: "M20",
        name: "mutation-kyverno-cel",
        direction: Direction::NotInstallable,
        title: "CEL that only Kyverno has",
        explanation: "the API server rejects functions and variables of Kyverno's, and `Object` or \
                      `JSONPatch` outside of mutations",
        advice: "write the expression without them",
    },
    Hazard {
        code: "M21",
        name: "mutation-duplicate-conditions",
        direction: Direction::NotInstallable,
        title: "two conditions have one name",
        explanation: "the conditions of exceptions and of the policy form one list, in which names are \
                      unique",
        advice: "give every condition a name of its own",
    },
    Hazard {
        code: "M22",
        name: "mutation-operations",
        direction: Direction::NotInstallable,
        title: "a native policy cannot list DELETE, or has no mutation",
        explanation: "the API server rejects the operation DELETE in a mutating policy, and one without \
                      mutations",
        advice: "list CREATE and UPDATE",
    },
    Hazard {
        code: "M23",
        name: "mutation-exception-variables",
        direction: Direction::NotInstallable,
        title: "a condition of an exception uses `variables`",
        explanation: "match conditions of a native policy are evaluated before variables, which they do not \
                      know",
        advice: "inline the expression",
    },
    Hazard {
        code: "M24",
        name: "mutation-condition-names",
        direction: Direction::NotInstallable,
        title: "names of conditions that are not qualified names",
        explanation: "Kyverno accepts any text; the API server rejects it",
        advice: "use letters, digits, `-`, `_` and `.`",
    },
    Hazard {
        code: "M25",
        name: "mutation-autogen-race",
        direction: Direction::Weaker,
        title: "pod controllers, or a native policy too early",
        explanation: "Kyverno generates nothing from a policy that is also about pod controllers; if the \
                      generator runs before the status is written, a native policy for pods is in force and \
                      controllers are not changed at all",
        advice: "set `spec.autogen.podControllers.controllers: []`",
    },
    Hazard {
        code: "M26",
        name: "mutation-exception-expiry",
        direction: Direction::Weaker,
        title: "an exception that expires later",
        explanation: "Kyverno checks the expiry on every request; the generator when it builds the native \
                      policy",
        advice: "delete the exception when it has expired",
    },
];
