//! Hazards in the effect of a violation and in its report.

use super::{Direction, Hazard};

/// The entries.
pub(super) const HAZARDS: &[Hazard] = &[
    Hazard {
        code: "H40",
        name: "override-dropped",
        direction: Direction::Either,
        title: "the override of the failure action is dropped",
        explanation: "Kyverno uses the override's action in the namespaces that its selector matches; the generated \
                      binding uses the rule's action everywhere",
        advice: "use two policies with complementary namespace selectors, one for each action",
    },
    Hazard {
        code: "H41",
        name: "audit-warnings",
        direction: Direction::Text,
        title: "`Audit` produces warnings",
        explanation: "Kyverno admits silently and reports the first failing expression; the native policy also \
                      admits, with a warning and an audit annotation for each failing expression",
        advice: "nothing needs to be done; use `emitWarning: true` to have warnings on both sides",
    },
    Hazard {
        code: "H42",
        name: "audit-missing-params",
        direction: Direction::Stricter,
        title: "missing parameters deny even with `Audit`",
        explanation: "Kyverno reports an error and admits; the API server treats missing parameters as a \
                      configuration error, which denies regardless of the actions",
        advice: "set `parameterNotFoundAction: Allow`, or make sure that the parameters exist",
    },
    Hazard {
        code: "H43",
        name: "audit-annotation-error",
        direction: Direction::Stricter,
        title: "an audit annotation that fails denies the request",
        explanation: "Kyverno ignores the audit annotations of a ClusterPolicy; in a native policy, a failing \
                      annotation expression denies, even with `Audit`",
        advice: "write annotation expressions that cannot fail: \
                      `object.metadata.?labels[?'team'].orValue('')`",
    },
    Hazard {
        code: "H44",
        name: "rule-message",
        direction: Direction::Text,
        title: "the rule's message is not copied",
        explanation: "Kyverno shows `validate.message` for expressions without one; the native policy shows the \
                      expression",
        advice: "write `message` in each expression",
    },
    Hazard {
        code: "H45",
        name: "reason",
        direction: Direction::Text,
        title: "`reason` has an effect in the native policy only",
        explanation: "Kyverno ignores it and responds with status 400; the API server responds with the status of \
                      the reason, or 422 without one",
        advice: "compare messages, not status codes",
    },
    Hazard {
        code: "H46",
        name: "result-words",
        direction: Direction::Text,
        title: "results are named differently",
        explanation: "Kyverno reports pass, fail, skip or error for each rule; a native policy admits, denies, or \
                      does not apply",
        advice: "treat a skipped rule like one that does not apply",
    },
    Hazard {
        code: "H50",
        name: "failure-policy",
        direction: Direction::Equal,
        title: "`failurePolicy: Ignore` is not copied",
        explanation: "the native policy fails on errors, and so does Kyverno's engine for CEL expressions of a \
                      ClusterPolicy, regardless of `failurePolicy`",
        advice: "do not copy `Ignore` into the native policy by hand: that would admit what Kyverno denies",
    },
];
