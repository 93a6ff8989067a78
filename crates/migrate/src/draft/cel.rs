//! `validate.cel`: the expressions as they are, with the parameter as a variable.
//!
//! Upstream counterpart: `pkg/engine/handlers/validation/validate_cel.go`. Conditions of ValidatingPolicies have no variables, so
//! those of the rule are written out in them.

use kyvtest_model::{
    kube::parse_api_version,
    policy::{Cel, Rule},
};
use kyvtest_prove::repair::RuleScope;

use super::{Draft, Preconditions, Source, Style, Validation};
use crate::{Expr, Refusal, RefusalCode};

/// Translates a rule in CEL.
pub(super) fn draft(
    source: Source<'_>,
    rule: &Rule,
    suffix: &'static str,
    scopes: Vec<RuleScope>,
    style: Style,
) -> Result<Draft, Refusal> {
    let validate = rule.validate.as_ref();
    let Some(cel) = validate.and_then(|validate| validate.cel.as_ref()) else {
        return Err(Refusal::new(RefusalCode::RuleType, "the rule is not in CEL").at(rule.span));
    };
    for (part, what) in [(&rule.preconditions, "preconditions"), (&rule.context, "context")] {
        if let Some(part) = part.as_ref().filter(|part| !part.node().is_null()) {
            let reason = format!("`{what}` of a rule in CEL");
            return Err(Refusal::new(RefusalCode::Condition, reason).at(part.span()));
        }
    }
    let parameter = parameter(cel)?;
    let text = |text: &str| {
        let text = text.trim();
        if parameter.is_some() {
            renamed(text, "params", "variables.params")
        } else {
            text.to_owned()
        }
    };
    let mut variables: Vec<(String, String)> = Vec::new();
    if let Some(parameter) = &parameter {
        variables.push(("params".to_owned(), parameter.clone()));
    }
    for variable in &cel.variables {
        variables.push((variable.name.value.clone(), text(variable.expression.text())));
    }
    let mut conditions = Vec::new();
    let webhook = source.cut.spec.webhook.as_ref();
    let of_webhook = webhook.map_or(&[][..], |webhook| &webhook.match_conditions);
    for condition in of_webhook.iter().chain(&rule.cel_preconditions) {
        let text = condition.expression.text().trim();
        let inlined = kyvtest_prove::inline(text, &variables);
        conditions.push((condition.name.value.clone(), inlined));
    }
    // A condition that is an error at the API server denies the request, whatever the actions of the policy are.
    let guard = if style.preconditions == Preconditions::Match {
        None
    } else {
        let all = conditions.drain(..).map(|(_, text)| format!("({text})"));
        let all: Vec<String> = all.collect();
        (!all.is_empty()).then(|| all.join(" && "))
    };
    let guarded = |expression: String| match &guard {
        Some(guard) if style.preconditions == Preconditions::Or => format!("!({guard}) || ({expression})"),
        Some(guard) => format!("{guard} ? ({expression}) : true"),
        None => expression,
    };
    let fallback = validate
        .and_then(|validate| validate.message.as_ref())
        .map(|text| text.value.trim().to_owned());
    let validations = cel.expressions.iter().map(|validation| Validation {
        expression: guarded(text(validation.expression.text())),
        message: validation
            .message
            .as_ref()
            .map(|text| text.value.trim().to_owned())
            .filter(|text| !text.is_empty())
            .or_else(|| fallback.clone())
            .filter(|text| !text.is_empty()),
        message_expression: validation.message_expression.as_ref().map(|own| text(own.text())),
    });
    let annotations = cel.audit_annotations.iter().map(|annotation| {
        let value = text(annotation.value_expression.text());
        (annotation.key.value.clone(), value)
    });
    Ok(Draft {
        suffix,
        variants: vec![suffix],
        scopes,
        conditions,
        validations: validations.collect(),
        annotations: annotations.collect(),
        notes: Vec::new(),
        variables,
    })
}

/// The parameter as a lookup.
fn parameter(cel: &Cel) -> Result<Option<String>, Refusal> {
    let Some(kind) = &cel.param_kind else { return Ok(None) };
    let refuse = |reason: &str| Err(Refusal::new(RefusalCode::Setting, reason).at(cel.span));
    let Some(reference) = &cel.param_ref else {
        return refuse("`paramKind` without `paramRef`");
    };
    let (Some(name), None) = (&reference.name, &reference.selector) else {
        return refuse("parameters are chosen by a selector; `resource.List` returns all of them at once");
    };
    let (group, version) = parse_api_version(&kind.api_version);
    let api_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    let plural = plural(&kind.kind);
    let text = |text: &str| Expr::string(text);
    let namespace = reference
        .namespace
        .as_ref()
        .map_or_else(|| Expr::primary("request.namespace"), |own| text(&own.value));
    let args = [text(&api_version), text(&plural), namespace, text(&name.value)];
    Ok(Some(Expr::primary("resource").call("Get", args).as_str().to_owned()))
}

/// The plural of a kind, as the API machinery guesses it.
pub(crate) fn plural(kind: &str) -> String {
    let lower = kind.to_ascii_lowercase();
    if lower.ends_with('s') || lower.ends_with('x') || lower.ends_with("ch") {
        return format!("{lower}es");
    }
    match lower.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{lower}s"),
    }
}

/// Replaces a name that stands alone in front of a selection or an operator.
pub(crate) fn renamed(text: &str, name: &str, other: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.' || c == '\'' || c == '"';
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(name) {
        let before = rest[..at].chars().next_back().or(out.chars().next_back());
        let after = rest[at + name.len()..].chars().next();
        let alone = !before.is_some_and(is_word) && !after.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
        out.push_str(&rest[..at]);
        out.push_str(if alone { other } else { name });
        rest = &rest[at + name.len()..];
    }
    out.push_str(rest);
    out
}
