//! Texts with variables: `{{ … }}` alone, inside other text, and inside the expression of another variable.
//!
//! Upstream counterpart: `substituteVars` in `pkg/engine/variables/vars.go`. Upstream replaces text by text, innermost variables
//! first; here a replaced variable leaves a mark in the text, and a literal with marks becomes a sum of texts.

use kyvtest_go_compat::{text::variable, value::Data};
use kyvtest_jmespath::Expression;

use super::{
    types::Type,
    value::{Missing, Value},
    walk::{Current, Translator},
};
use crate::{Expr, Refusal, RefusalCode, names::Names};

/// Marks of values that were put into a text: each is one of these characters and a number.
const OPEN: char = '\u{E000}';
const CLOSE: char = '\u{E001}';
/// The whole of a JSON literal.
const JSON: char = '\u{E002}';

/// Translates a JMESPath expression, which may have variables in it.
///
/// # Errors
/// What has no translation.
pub(crate) fn query(text: &str, names: &mut Names<'_>) -> Result<Value, Refusal> {
    let mut marked = Marked::default();
    let text = marked.replace(text, names)?;
    marked.expression(&text, names)
}

/// Translates a JMESPath expression on a value instead of the context.
///
/// # Errors
/// What has no translation.
pub(crate) fn query_on(text: &str, value: &Value, names: &mut Names<'_>) -> Result<Value, Refusal> {
    let mut marked = Marked::default();
    let text = marked.replace(text, names)?;
    marked.applied(&text, Current::Value(value), names)
}

/// Translates a text with variables. The text that is nothing but a variable has the value of the variable.
///
/// # Errors
/// What has no translation.
pub(crate) fn read_text(text: &str, names: &mut Names<'_>) -> Result<Value, Refusal> {
    if text.contains("$(") {
        let reason = format!("`{text}` refers to another place of the rule; write the value instead of `$( )`");
        return Err(Refusal::new(RefusalCode::Variable, reason));
    }
    if !text.contains("{{") {
        return Value::literal(&Data::from(text));
    }
    let mut marked = Marked::default();
    let text = marked.replace(text, names)?;
    marked.text(&text)
}

/// Translates a tree of texts with variables: the key or the value of a condition.
///
/// # Errors
/// What has no translation.
pub(crate) fn data(data: &Data, names: &mut Names<'_>) -> Result<Value, Refusal> {
    match data {
        Data::String(text) => read_text(text, names),
        Data::List(items) if has_variables(data) => {
            let mut list = Vec::with_capacity(items.len());
            let mut fails = false;
            for item in items.iter() {
                let item = self::data(item, names)?;
                item.read()?;
                fails |= item.fails_if_read();
                list.push(text_of(&item)?);
            }
            let mut value = Value::new(Expr::list(list), Type::list(Type::text()));
            value.fails = fails;
            Ok(value)
        }
        Data::Map(_) if has_variables(data) => {
            let reason = "a map with variables in it has no translation; write it as a CEL map";
            Err(Refusal::new(RefusalCode::Query, reason))
        }
        data => Value::literal(data),
    }
}

fn has_variables(data: &Data) -> bool {
    match data {
        Data::String(text) => text.contains("{{") || text.contains("$("),
        Data::List(items) => items.iter().any(has_variables),
        Data::Map(entries) => entries
            .iter()
            .any(|(key, value)| key.contains("{{") || has_variables(value)),
        _ => false,
    }
}

/// The values of the variables that a text had.
#[derive(Debug, Default)]
pub(super) struct Marked {
    values: Vec<Value>,
}

impl Marked {
    /// Puts marks in place of all variables.
    fn replace(&mut self, text: &str, names: &mut Names<'_>) -> Result<String, Refusal> {
        let mut text = text.to_owned();
        loop {
            let found: Vec<String> = variable::bare_variables(&text).into_iter().map(str::to_owned).collect();
            if found.is_empty() {
                return Ok(text.replace("\\{{", "{{"));
            }
            for variable in found {
                let inner = variable.trim_start_matches('{').trim_end_matches('}').trim();
                let inner = inner.strip_prefix('-').unwrap_or(inner).trim();
                if inner == "@" {
                    let reason = "`{{ @ }}` is the value at the same place of the object; write its path";
                    return Err(Refusal::new(RefusalCode::Variable, reason));
                }
                let value = self.expression(inner, names)?;
                let mark = format!("{OPEN}{}{CLOSE}", self.values.len());
                self.values.push(value);
                text = text.replacen(&variable, &mark, 1);
            }
        }
    }

    /// Translates an expression that may have marks in its literals.
    fn expression(&self, text: &str, names: &mut Names<'_>) -> Result<Value, Refusal> {
        self.applied(text, Current::Root, names)
    }

    fn applied(&self, text: &str, current: Current<'_>, names: &mut Names<'_>) -> Result<Value, Refusal> {
        let text = self.quote_json(text);
        let parsed = Expression::parse(&text).map_err(|error| {
            let reason = if text.contains([OPEN, JSON]) {
                let shown = self.shown(&text);
                format!("`{shown}`: the variable is a part of the expression itself; CEL has no expressions that are known at run time only")
            } else {
                format!("`{text}` is not JMESPath: {error}")
            };
            Refusal::new(RefusalCode::Query, reason)
        })?;
        let mut translator = Translator { names, marked: self };
        translator.node(parsed.tree(), current).map_err(|refusal| Refusal {
            reason: format!("`{}`: {}", self.shown(&text), refusal.reason),
            ..refusal
        })
    }

    /// A JSON literal that is nothing but a mark becomes JSON.
    fn quote_json(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for number in 0..self.values.len() {
            let literal = format!("`{OPEN}{number}{CLOSE}`");
            text = text.replace(&literal, &format!("`\"{JSON}{number}{CLOSE}\"`"));
        }
        text
    }

    /// The text for people: with the CEL expressions in place of the marks.
    fn shown(&self, text: &str) -> String {
        let mut shown = text.replace([OPEN, JSON], "{{").replace(CLOSE, "}}");
        for (number, value) in self.values.iter().enumerate() {
            shown = shown.replace(&format!("{{{{{number}}}}}"), &format!("{{{{ {} }}}}", value.plain()));
        }
        shown
    }

    /// The value of a literal with marks, if it has any.
    pub(super) fn literal(&self, text: &str) -> Option<Result<Value, Refusal>> {
        if let Some(number) = text.strip_prefix(JSON).and_then(|rest| rest.strip_suffix(CLOSE)) {
            let value = number.parse().ok().and_then(|number: usize| self.values.get(number))?;
            return Some(value.read().map(|()| value.clone()));
        }
        text.contains(OPEN).then(|| self.concatenated(text))
    }

    /// The value of a text with marks: a value alone, or a sum of texts.
    fn text(&self, text: &str) -> Result<Value, Refusal> {
        let alone = text.strip_prefix(OPEN).and_then(|rest| rest.strip_suffix(CLOSE));
        if let Some(value) = alone.and_then(|number| self.values.get(number.parse::<usize>().ok()?)) {
            return Ok(value.clone());
        }
        self.concatenated(text)
    }

    fn concatenated(&self, text: &str) -> Result<Value, Refusal> {
        let mut sum: Option<Expr> = None;
        let mut fails = false;
        let mut plain = true;
        let mut nonempty = false;
        let mut add = |part: Expr| {
            sum = Some(match sum.take() {
                Some(sum) => sum.sum("+", &part),
                None => part,
            });
        };
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once(OPEN) {
            if !before.is_empty() {
                plain &= !before.contains(['*', '?']);
                nonempty = true;
                add(Expr::string(before));
            }
            let (number, behind) = behind.split_once(CLOSE).unwrap_or((behind, ""));
            if let Some(value) = number.parse().ok().and_then(|number: usize| self.values.get(number)) {
                value.read()?;
                fails |= value.fails_if_read();
                plain &= value.ty.as_text().is_some_and(|text| text.plain) || value.ty == Type::Int;
                nonempty |= !value.ty.can_be_false();
                add(text_of(value)?);
            }
            rest = behind;
        }
        if !rest.is_empty() {
            plain &= !rest.contains(['*', '?']);
            nonempty = true;
            add(Expr::string(rest));
        }
        let known = super::types::Text {
            nonempty,
            plain,
            ..super::types::Text::default()
        };
        let mut value = Value::new(sum.unwrap_or_else(|| Expr::string("")), Type::Text(known));
        value.fails = fails;
        Ok(value)
    }
}

/// A value as it appears inside a text. A value of an unknown type is taken for a text.
pub(crate) fn text_of(value: &Value) -> Result<Expr, Refusal> {
    if let Some(Data::String(text)) = &value.literal {
        return Ok(Expr::string(text));
    }
    if value.missing == Missing::Null {
        let shown = text_of(&value.assumed())?;
        return Ok(value.present().choose(&shown, &Expr::string("null")));
    }
    match &value.ty {
        Type::Text(_) | Type::Any => Ok(value.plain().clone()),
        Type::Int | Type::Bool | Type::IntOrText => Ok(Expr::function("string", [value.plain().clone()])),
        _ => {
            let reason = format!(
                "`{}` is not a text, and CEL does not write values as JSON inside texts",
                value.plain()
            );
            Err(Refusal::new(RefusalCode::Query, reason))
        }
    }
}
