//! Checks of literals that Kubernetes adds to the type checker: durations, timestamps, regular expressions, format
//! strings, and lists and maps whose elements have different types.
//!
//! Upstream counterpart: cel-go `cel/validator.go`, `ext/formatting.go` (`stringFormatValidator`).
//!
//! Deviation: an optional element whose static type is dyn makes Kubernetes 1.36 panic; here it is reported.

use super::{
    ast::{Expr, ExprId, Literal},
    check::{Checked, Reference, located},
    env::Env,
    issue::Issues,
    library::strings::{FormatArgument, check_format_literal},
    plan::plan_literal_call,
    types::Type,
};
use kyvtest_go_compat::regex::Regex;

/// Runs the checks that the environment enables.
pub(super) fn validate(checked: &Checked, source: &str, env: &Env) -> Result<(), Issues> {
    let mut validator = Validator {
        checked,
        env,
        issues: Vec::new(),
    };
    validator.walk(checked.ast.root(), false);
    // Problems at one location come in the order of the checks.
    validator.issues.sort_by_key(|(rank, ..)| *rank);
    let issues: Vec<(u32, String)> = validator
        .issues
        .into_iter()
        .map(|(_, offset, message)| (offset, message))
        .collect();
    match located(&issues, source) {
        Some(issues) => Err(issues),
        None => Ok(()),
    }
}

struct Validator<'c> {
    checked: &'c Checked,
    env: &'c Env,
    issues: Vec<(Rank, u32, String)>,
}

/// The checks in the order in which upstream runs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Lists,
    Maps,
    Duration,
    Timestamp,
    Regex,
    Format,
}

impl Validator<'_> {
    fn report(&mut self, rank: Rank, id: ExprId, message: String) {
        self.issues.push((rank, self.checked.ast.offset(id), message));
    }

    /// `in_format`: inside the arguments or the receiver of `format`, where mixed lists are allowed.
    fn walk(&mut self, id: ExprId, in_format: bool) {
        let checked = self.checked;
        match checked.ast.expr(id) {
            Expr::Literal(_) | Expr::Ident(_) => {}
            Expr::Select { operand, .. } => {
                // A name that was resolved as a whole has no operand.
                if checked.references[id.index()] == Reference::None {
                    self.walk(*operand, in_format);
                }
            }
            Expr::Call { function, target, args } => {
                self.validate_call(id, function, *target, args);
                let inside = in_format || &**function == "format";
                let namespaced = matches!(
                    checked.references[id.index()],
                    Reference::Function { namespaced: true, .. }
                );
                for &part in target.iter().filter(|_| !namespaced).chain(args) {
                    self.walk(part, inside);
                }
            }
            Expr::List { elements, optional } => {
                if !in_format && self.env.profile().homogeneous_literals {
                    self.validate_list(elements, optional);
                }
                for &element in elements {
                    self.walk(element, in_format);
                }
            }
            Expr::Map(entries) => {
                if !in_format && self.env.profile().homogeneous_literals {
                    self.validate_map(entries);
                }
                for entry in entries {
                    self.walk(entry.key, in_format);
                    self.walk(entry.value, in_format);
                }
            }
            Expr::Struct { fields, .. } => {
                for field in fields {
                    self.walk(field.value, in_format);
                }
            }
            Expr::Comprehension(comprehension) => {
                for part in [
                    comprehension.iter_range,
                    comprehension.accu_init,
                    comprehension.loop_condition,
                    comprehension.loop_step,
                    comprehension.result,
                ] {
                    self.walk(part, in_format);
                }
            }
        }
    }

    fn validate_call(&mut self, id: ExprId, function: &str, target: Option<ExprId>, args: &[ExprId]) {
        let rank = match function {
            "duration" => Rank::Duration,
            "timestamp" => Rank::Timestamp,
            "matches" => Rank::Regex,
            "format" => return self.validate_format(id, target, args),
            _ => return,
        };
        // The global `matches(s, re)` has its text first, and upstream checks that as well.
        if self.env.profile().validators
            && let Some(&arg) = args.first()
            && let Expr::Literal(literal) = self.checked.ast.expr(arg)
        {
            let valid = match literal {
                Literal::String(pattern) if rank == Rank::Regex => Regex::check(pattern).is_ok(),
                _ if rank == Rank::Regex => true,
                _ => plan_literal_call(self.checked, id, self.env).is_ok(),
            };
            if !valid {
                self.report(rank, arg, format!("invalid {function} argument"));
            }
        }
    }

    fn validate_format(&mut self, id: ExprId, target: Option<ExprId>, args: &[ExprId]) {
        let ast = &self.checked.ast;
        let (Some(version), Some(target), &[list]) = (self.env.profile().libraries.strings, target, args) else {
            return;
        };
        let (Expr::Literal(Literal::String(text)), Expr::List { elements, .. }) = (ast.expr(target), ast.expr(list))
        else {
            return;
        };
        let arguments: Vec<FormatArgument<ExprId>> = elements.iter().map(|&element| self.argument(element)).collect();
        if let Err(error) = check_format_literal(text, &arguments, version) {
            self.report(Rank::Format, error.argument.unwrap_or(id), error.text);
        }
    }

    fn argument(&self, id: ExprId) -> FormatArgument<ExprId> {
        let nested = match self.checked.ast.expr(id) {
            Expr::List { elements, .. } => elements.iter().map(|&element| self.argument(element)).collect(),
            Expr::Map(entries) => entries
                .iter()
                .flat_map(|entry| [self.argument(entry.key), self.argument(entry.value)])
                .collect(),
            _ => Vec::new(),
        };
        FormatArgument {
            id,
            t: self.checked.type_of(id).clone(),
            nested,
        }
    }

    fn element_type(&self, id: ExprId, optional: bool) -> Type {
        let t = self.checked.type_of(id);
        match t.unwrap_optional() {
            Some(inner) if optional => inner.clone(),
            _ => t.clone(),
        }
    }

    /// Reports expressions that make the API server panic.
    fn report_panics(&mut self, rank: Rank, optional: impl Iterator<Item = ExprId>) {
        if !self.env.profile().behaviour.dyn_optional_elements_panic {
            return;
        }
        for element in optional {
            let t = self.checked.type_of(element);
            if t.unwrap_optional().is_none() {
                let message = format!("an optional element of type '{t}' makes the API server panic");
                self.report(rank, element, message);
            }
        }
    }

    fn validate_list(&mut self, elements: &[ExprId], optional: &[u32]) {
        let places = optional.iter().filter_map(|&i| elements.get(i as usize));
        self.report_panics(Rank::Lists, places.copied());
        let mut first: Option<Type> = None;
        for (i, &element) in elements.iter().enumerate() {
            let t = self.element_type(element, optional.contains(&(i as u32)));
            match &first {
                None => first = Some(t),
                Some(first) if *first != t => {
                    let message = format!("expected type '{first}' but found '{t}'");
                    return self.report(Rank::Lists, element, message);
                }
                Some(_) => {}
            }
        }
    }

    fn validate_map(&mut self, entries: &[super::ast::MapEntry]) {
        let optional = entries.iter().filter(|entry| entry.optional);
        self.report_panics(Rank::Maps, optional.map(|entry| entry.value));
        let mut first: Option<(Type, Type)> = None;
        for entry in entries {
            let key = self.element_type(entry.key, false);
            let value = self.element_type(entry.value, entry.optional);
            let Some((first_key, first_value)) = &first else {
                first = Some((key, value));
                continue;
            };
            let wrong_key = (*first_key != key).then(|| format!("expected type '{first_key}' but found '{key}'"));
            let wrong_value =
                (*first_value != value).then(|| format!("expected type '{first_value}' but found '{value}'"));
            if let Some(message) = wrong_key {
                self.report(Rank::Maps, entry.key, message);
            }
            if let Some(message) = wrong_value {
                self.report(Rank::Maps, entry.value, message);
            }
        }
    }
}
