//! Hazards of ValidatingPolicies.

use super::{Direction, Hazard};

/// The entries.
pub(super) const HAZARDS: &[Hazard] = &[
    Hazard {
        code: "V01",
        name: "failure-policy-ignored",
        direction: Direction::Stricter,
        title: "`failurePolicy: Ignore` is not copied",
        explanation: "Kyverno skips the policy where a match condition fails; the native policy fails on errors \
                      and denies",
        advice: "write conditions that cannot fail",
    },
    Hazard {
        code: "V02",
        name: "exception-conditions-split",
        direction: Direction::Weaker,
        title: "an exception with several conditions exempts if any of them holds",
        explanation: "Kyverno exempts if all conditions hold; the generator negates each one separately, so one \
                      that holds is enough",
        advice: "write one condition with `&&`",
    },
    Hazard {
        code: "V03",
        name: "exception-without-conditions",
        direction: Direction::Stricter,
        title: "an exception without conditions is dropped",
        explanation: "Kyverno exempts every request; the generator adds nothing to the native policy",
        advice: "write a condition: `expression: 'true'`",
    },
    Hazard {
        code: "V04",
        name: "exception-values-inverted",
        direction: Direction::Either,
        title: "allowed images or values with conditions",
        explanation: "Kyverno allows the values where the conditions hold; the native policy is skipped there, and \
                      allows them everywhere else",
        advice: "write the condition into the policy's expression",
    },
    Hazard {
        code: "V05",
        name: "exception-values-replaced",
        direction: Direction::Stricter,
        title: "several exceptions with allowed images or values",
        explanation: "Kyverno allows the values of all matching exceptions; in the native policy the last list \
                      replaces the others",
        advice: "put all values into one exception",
    },
    Hazard {
        code: "V06",
        name: "exception-kind",
        direction: Direction::Weaker,
        title: "an exception for a policy of another kind also counts",
        explanation: "Kyverno compares name and kind; the generator compares the name only",
        advice: "give policies of different kinds different names",
    },
    Hazard {
        code: "V07",
        name: "duplicate-condition-name",
        direction: Direction::NotInstallable,
        title: "a condition of an exception has the name of another one",
        explanation: "Kyverno ignores the names; the generator keeps them, and the API server rejects duplicates",
        advice: "give the conditions of exceptions unique names",
    },
    Hazard {
        code: "V08",
        name: "namespace-object-null",
        direction: Direction::Stricter,
        title: "`namespaceObject` in a match condition is null in a native policy",
        explanation: "Kyverno binds the Namespace; the API server binds null while it evaluates conditions, so the \
                      condition fails and every request is denied",
        advice: "use `request.namespace`, or a namespace selector",
    },
    Hazard {
        code: "V09",
        name: "vpol-admission-disabled",
        direction: Direction::Stricter,
        title: "a policy that is off at admission becomes one that is on",
        explanation: "Kyverno does not serve the policy at admission; the native policy decides there",
        advice: "do not request generation if `evaluation.admission.enabled` is false",
    },
    Hazard {
        code: "V10",
        name: "json-mode",
        direction: Direction::Stricter,
        title: "a policy on other input becomes one on requests",
        explanation: "Kyverno evaluates the policy only on payloads of its mode; the native policy evaluates \
                      admission requests",
        advice: "do not request generation in modes other than Kubernetes",
    },
    Hazard {
        code: "V11",
        name: "kyverno-only-cel",
        direction: Direction::NotInstallable,
        title: "an expression uses what only Kyverno has",
        explanation: "Kyverno's own libraries, `request.object` and `exceptions` do not exist in a native policy; \
                      the API server rejects it, and Kyverno continues to decide itself without reporting that",
        advice: "use `object` instead of `request.object`; policies that need Kyverno's libraries stay with \
                      Kyverno",
    },
    Hazard {
        code: "V12",
        name: "empty-object",
        direction: Direction::Weaker,
        title: "an absent object is `{}` in Kyverno and null in a native policy",
        explanation: "on CREATE `oldObject == null`, on DELETE `object == null`, is false in Kyverno and true in \
                      the native policy",
        advice: "check `request.operation` instead",
    },
    Hazard {
        code: "V13",
        name: "negative-selector-on-create",
        direction: Direction::Offline,
        title: "a selector with NotIn or DoesNotExist on CREATE",
        explanation: "outside a cluster, Kyverno also compares it with the absent old object, which has no labels \
                      and matches; in a cluster, the webhook filters first",
        advice: "nothing needs to be done in a cluster",
    },
    Hazard {
        code: "V14",
        name: "generate-name-prefix",
        direction: Direction::Offline,
        title: "resource names and `generateName`",
        explanation: "outside of a cluster Kyverno compares names with the beginning of `generateName`; in a \
                      cluster the name is known",
        advice: "give the objects of tests a name",
    },
    Hazard {
        code: "V15",
        name: "message-expression",
        direction: Direction::Text,
        title: "message expressions that fail",
        explanation: "Kyverno reports the failure, or a default message with the number of the validation; the API \
                      server falls back to the message, then to the expression",
        advice: "write `message` beside `messageExpression`",
    },
    Hazard {
        code: "V16",
        name: "vpol-audit-annotation-error",
        direction: Direction::Stricter,
        title: "an audit annotation that fails denies the request",
        explanation: "without `Deny`, Kyverno admits with an error in the report; the native policy denies, \
                      regardless of the actions",
        advice: "write annotation expressions that cannot fail",
    },
    Hazard {
        code: "V17",
        name: "no-cost-limit",
        direction: Direction::Stricter,
        title: "Kyverno has no cost limits",
        explanation: "Kyverno evaluates expressions of any cost; the API server ends an expensive one with an \
                      error, which denies",
        advice: "avoid loops in loops over lists of any length",
    },
    Hazard {
        code: "V18",
        name: "first-failure",
        direction: Direction::Text,
        title: "several validations that fail",
        explanation: "Kyverno stops at the first; the API server evaluates all, and warns of each",
        advice: "nothing needs to be done",
    },
    Hazard {
        code: "V19",
        name: "autogen",
        direction: Direction::NotInstallable,
        title: "the policy also covers pod controllers",
        explanation: "Kyverno derives policies for pod controllers from a policy for Pods; as long as it does, it \
                      generates no native policy",
        advice: "set `autogen.podControllers.controllers: []` and write policies for the controllers",
    },
    Hazard {
        code: "V20",
        name: "ephemeral-containers",
        direction: Direction::Equal,
        title: "ephemeral containers",
        explanation: "a ValidatingPolicy matches the listed resources only, and they are copied as they are",
        advice: "list `pods/ephemeralcontainers` if it should count",
    },
    Hazard {
        code: "V21",
        name: "namespaced-policy",
        direction: Direction::NotInstallable,
        title: "a policy for one namespace",
        explanation: "Kyverno never generates a native policy from it, even if it requests one",
        advice: "write a ValidatingPolicy with a namespace selector on `kubernetes.io/metadata.name`",
    },
    Hazard {
        code: "V22",
        name: "exception-expiry",
        direction: Direction::Weaker,
        title: "an exception that expires",
        explanation: "Kyverno ignores it from then on; the native policy keeps the exemption until it is generated \
                      anew, and nothing does that",
        advice: "delete the exception, or change the policy, when it expires",
    },
    Hazard {
        code: "V23",
        name: "lazy-variables",
        direction: Direction::Equal,
        title: "variables that fail",
        explanation: "on both sides a variable is evaluated where it is used, and only there an error counts",
        advice: "nothing needs to be done",
    },
    Hazard {
        code: "V24",
        name: "namespace-object-of-namespace",
        direction: Direction::Either,
        title: "`namespaceObject` for Namespace objects",
        explanation: "on UPDATE and DELETE of a Namespace Kyverno binds the stored Namespace; the API server binds \
                      null",
        advice: "use `object` and `oldObject` for Namespaces",
    },
];
