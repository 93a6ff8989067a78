//! What a translation knows and collects: the names in force, and the `variables` of the new policy.

use crate::{Expr, Scope};

/// The names in force, and the variables collected so far.
#[derive(Debug)]
pub(crate) struct Names<'a> {
    pub(crate) scope: Scope,
    pub(crate) variables: &'a mut Variables,
}

impl<'a> Names<'a> {
    pub(crate) fn new(scope: Scope, variables: &'a mut Variables) -> Self {
        Self { scope, variables }
    }

    /// The same variables with other names in force: inside a loop.
    pub(crate) fn within(&mut self, scope: Scope) -> Names<'_> {
        Names {
            scope,
            variables: self.variables,
        }
    }
}

/// The named expressions of a policy, in the order in which they must be defined.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Variables {
    entries: Vec<(String, Expr)>,
    lookups: Vec<Lookup>,
}

/// What the new policy reads from the cluster: Kyverno's service accounts need the permission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lookup {
    /// `v1`, `apps/v1`
    pub(crate) api_version: String,
    /// The plural: `configmaps`.
    pub(crate) resource: String,
    /// `get` or `list`.
    pub(crate) verb: &'static str,
}

impl Variables {
    /// Defines a variable and returns the expression that reads it. The same expression is defined once; a name that is taken
    /// by another one gets a number.
    pub(crate) fn define(&mut self, name: &str, expr: Expr) -> Expr {
        if let Some((known, _)) = self.entries.iter().find(|(_, known)| *known == expr) {
            return Expr::primary("variables").field(known);
        }
        let name = identifier(name);
        let mut free = name.clone();
        let mut number = 1;
        while self.entries.iter().any(|(taken, _)| *taken == free) {
            number += 1;
            free = format!("{name}{number}");
        }
        let read = Expr::primary("variables").field(&free);
        self.entries.push((free, expr));
        read
    }

    /// Notes that the policy reads from the cluster.
    pub(crate) fn look_up(&mut self, lookup: Lookup) {
        if !self.lookups.contains(&lookup) {
            self.lookups.push(lookup);
        }
    }

    /// What the policy reads from the cluster.
    pub(crate) fn lookups(&self) -> &[Lookup] {
        &self.lookups
    }

    /// Names and expressions in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Expr)> {
        self.entries.iter().map(|(name, expr)| (name.as_str(), expr))
    }

    /// Drops the variables that neither the given expressions nor a later variable read.
    pub(crate) fn retain_used<'e>(&mut self, expressions: impl IntoIterator<Item = &'e str>) {
        let mut texts: Vec<String> = expressions.into_iter().map(str::to_owned).collect();
        let mut kept = Vec::new();
        for (name, expr) in std::mem::take(&mut self.entries).into_iter().rev() {
            if texts.iter().any(|text| reads(text, &name)) {
                texts.push(expr.as_str().to_owned());
                kept.push((name, expr));
            }
        }
        kept.reverse();
        self.entries = kept;
    }
}

/// Whether an expression reads a variable. A string literal that looks like it counts as well, which keeps too much.
fn reads(text: &str, name: &str) -> bool {
    let read = format!("variables.{name}");
    text.match_indices(&read).any(|(at, _)| {
        let next = text[at + read.len()..].chars().next();
        !next.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// A name that CEL accepts: `roles-dictionary` becomes `rolesDictionary`.
pub(crate) fn identifier(name: &str) -> String {
    let mut out = String::new();
    let mut upper = false;
    for c in name.chars() {
        if c.is_ascii_alphanumeric() || c == '_' {
            out.push(if upper { c.to_ascii_uppercase() } else { c });
            upper = false;
        } else {
            upper = !out.is_empty();
        }
    }
    if out.is_empty() || out.starts_with(|c: char| c.is_ascii_digit()) {
        out.insert(0, 'v');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{Variables, identifier};
    use crate::Expr;

    #[test]
    fn equal_expressions_share_a_variable_and_equal_names_get_numbers() {
        let mut variables = Variables::default();
        let [a, b] = ["object.a", "object.b"].map(Expr::primary);
        assert_eq!(variables.define("x", a.clone()).as_str(), "variables.x");
        assert_eq!(variables.define("y", a).as_str(), "variables.x");
        assert_eq!(variables.define("x", b).as_str(), "variables.x2");
        variables.retain_used(["variables.x2 == 1"]);
        assert_eq!(variables.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["x2"]);
    }

    #[test]
    fn names_become_identifiers() {
        assert_eq!(identifier("roles-dictionary"), "rolesDictionary");
        assert_eq!(identifier("2nd"), "v2nd");
    }
}
