//! Hazards of what a violation means, and how it is told.

use super::{Direction, Hazard};

/// The entries.
pub(super) const HAZARDS: &[Hazard] = &[
    Hazard {
        code: "H40",
        name: "override-dropped",
        direction: Direction::Either,
        title: "the override of the failure action is dropped",
        explanation: "Kyverno takes the override's action in the namespaces that its selector fits; the generated \
                      binding has the action of the rule everywhere",
        advice: "use two policies with complementary namespace selectors, one for each action",
    },
    Hazard {
        code: "H41",
        name: "audit-warnings",
        direction: Direction::Text,
        title: "Audit gives warnings",
        explanation: "Kyverno admits silently and reports the first failing expression; the native policy also \
                      admits, with a warning and an audit annotation for each failing expression",
        advice: "nothing needs to be done; use `emitWarning: true` to have warnings on both sides",
    },
    Hazard {
        code: "H42",
        name: "audit-missing-params",
        direction: Direction::Stricter,
        title: "missing parameters deny even with Audit",
        explanation: "Kyverno reports an error and admits; the API server takes missing parameters for a mistake \
                      of the configuration, which denies whatever the actions are",
        advice: "set `parameterNotFoundAction: Allow`, or make sure that the parameters exist",
    },
    Hazard {
        code: "H43",
        name: "audit-annotation-error",
        direction: Direction::Stricter,
        title: "an audit annotation that fails denies the request",
        explanation: "Kyverno never looks at the annotations of a ClusterPolicy; in a native policy an expression \
                      that fails denies, also with Audit",
        advice: "write annotation expressions that cannot fail: \
                      `object.metadata.?labels[?'team'].orValue('')`",
    },
    Hazard {
        code: "H44",
        name: "rule-message",
        direction: Direction::Text,
        title: "the message of the rule is not taken over",
        explanation: "Kyverno shows `validate.message` for expressions without one; the native policy shows the \
                      text of the expression",
        advice: "write `message` in each expression",
    },
    Hazard {
        code: "H45",
        name: "reason",
        direction: Direction::Text,
        title: "`reason` has an effect in the native policy only",
        explanation: "Kyverno ignores it and answers 400; the API server answers with the code of the reason, 422 \
                      without one",
        advice: "compare the message, not the code",
    },
    Hazard {
        code: "H46",
        name: "result-words",
        direction: Direction::Text,
        title: "results have other words",
        explanation: "Kyverno reports pass, fail, skip or error for each rule; a native policy admits, denies, or \
                      does not apply",
        advice: "a skipped rule and one that does not apply count as the same",
    },
    Hazard {
        code: "H50",
        name: "failure-policy",
        direction: Direction::Equal,
        title: "`failurePolicy: Ignore` is not copied",
        explanation: "the native policy fails on errors, and so does Kyverno's engine for expressions of a \
                      ClusterPolicy, whatever the policy says",
        advice: "do not copy `Ignore` into the native policy by hand: that would admit what Kyverno denies",
    },
];
