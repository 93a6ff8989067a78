//! Type inference: assignability, and the bindings of type variables.
//!
//! Upstream counterpart: cel-go `checker/{types,mapping}.go`. Upstream copies its bindings before each attempt; here a
//! failed attempt is rolled back from a trail. A wrapper type is more general than the type inside, as cel-spec
//! requires; upstream takes whichever comes first.

use std::sync::Arc;

use super::types::Type;

/// The type variables of one check.
#[derive(Debug, Default)]
pub(crate) struct Inference {
    bound: Vec<Option<Type>>,
    trail: Vec<(u32, Option<Type>)>,
}

impl Inference {
    /// A fresh type variable.
    pub(crate) fn fresh(&mut self) -> Type {
        self.bound.push(None);
        Type::Param(self.bound.len() as u32 - 1)
    }

    /// A type of an overload with its parameters replaced by fresh variables that start at `base`.
    pub(crate) fn instantiate(t: &Type, base: u32) -> Type {
        match t {
            Type::Param(n) => Type::Param(base + n),
            Type::List(element) => Type::list(Self::instantiate(element, base)),
            Type::Map(entry) => Type::map(Self::instantiate(&entry.0, base), Self::instantiate(&entry.1, base)),
            Type::Opaque(name, parameters) => Type::Opaque(
                name.clone(),
                parameters.iter().map(|p| Self::instantiate(p, base)).collect(),
            ),
            Type::Type(Some(inner)) => Type::type_of(Self::instantiate(inner, base)),
            other => other.clone(),
        }
    }

    /// Reserves variables for the parameters of an overload and returns the first.
    pub(crate) fn reserve(&mut self, count: u32) -> u32 {
        let base = self.bound.len() as u32;
        self.bound.resize(self.bound.len() + count as usize, None);
        base
    }

    fn find(&self, t: &Type) -> Option<&Type> {
        match t {
            Type::Param(n) => self.bound.get(*n as usize)?.as_ref(),
            _ => None,
        }
    }

    fn bind(&mut self, variable: u32, t: Type) {
        let old = self.bound[variable as usize].replace(t);
        self.trail.push((variable, old));
    }

    /// Whether a value of type `b` is assignable to `a`; binds variables if so, and only then.
    pub(crate) fn assignable(&mut self, a: &Type, b: &Type) -> bool {
        self.attempt(|this| this.assign(a, b))
    }

    /// The same for lists of types.
    pub(crate) fn assignable_list(&mut self, a: &[Type], b: &[Type]) -> bool {
        self.attempt(|this| this.assign_list(a, b))
    }

    fn attempt(&mut self, try_it: impl FnOnce(&mut Self) -> bool) -> bool {
        let mark = self.trail.len();
        let ok = try_it(self);
        if !ok {
            while self.trail.len() > mark {
                let (variable, old) = self.trail.pop().expect("longer than the mark");
                self.bound[variable as usize] = old;
            }
        }
        // INVARIANT: attempts do not nest, so a successful one is never rolled back.
        self.trail.clear();
        ok
    }

    fn assign_list(&mut self, a: &[Type], b: &[Type]) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.assign(a, b))
    }

    fn assign(&mut self, a: &Type, b: &Type) -> bool {
        if let Type::Param(variable) = b {
            let (valid, has_binding) = self.bind_if_valid(a, *variable);
            if valid {
                return true;
            }
            if has_binding {
                return false;
            }
        }
        if let Type::Param(variable) = a {
            return self.bind_if_valid(b, *variable).0;
        }
        if a.is_dyn_or_error() || b.is_dyn_or_error() {
            return true;
        }
        match (a, b) {
            (Type::Null, _) => nullable(b),
            (_, Type::Null) => nullable(a),
            (Type::Type(_), _) => matches!(b, Type::Type(_)),
            (Type::Wrapper(inner), Type::Wrapper(other)) => inner == other,
            (Type::Wrapper(inner), other) | (other, Type::Wrapper(inner)) => **inner == *other,
            (Type::List(a), Type::List(b)) => self.assign(a, b),
            (Type::Map(a), Type::Map(b)) => self.assign(&a.0, &b.0) && self.assign(&a.1, &b.1),
            (Type::Opaque(a, a_parameters), Type::Opaque(b, b_parameters)) => {
                a == b && self.assign_list(a_parameters, b_parameters)
            }
            _ => a == b,
        }
    }

    fn bind_if_valid(&mut self, t: &Type, variable: u32) -> (bool, bool) {
        if matches!(t, Type::Param(n) if *n == variable) {
            return (true, true);
        }
        if let Some(bound) = self.bound[variable as usize].clone() {
            if *t == bound {
                return (true, true);
            }
            if self.assign(t, &bound) {
                let general = most_general(t, &bound).clone();
                if self.not_within(variable, &general) {
                    self.bind(variable, general);
                }
                return (true, true);
            }
            return (false, true);
        }
        if self.not_within(variable, t) {
            self.bind(variable, t.clone());
            return (true, false);
        }
        (false, false)
    }

    fn not_within(&self, variable: u32, t: &Type) -> bool {
        match t {
            Type::Param(n) if *n == variable => false,
            Type::Param(_) => self.find(t).is_none_or(|bound| self.not_within(variable, bound)),
            Type::List(element) => self.not_within(variable, element),
            Type::Map(entry) => self.not_within(variable, &entry.0) && self.not_within(variable, &entry.1),
            Type::Opaque(_, parameters) => parameters.iter().all(|p| self.not_within(variable, p)),
            Type::Type(Some(inner)) => self.not_within(variable, inner),
            _ => true,
        }
    }

    /// Replaces the variables of a type by their bindings; free ones become `dyn` on request.
    pub(crate) fn substitute(&self, t: &Type, free_to_dyn: bool) -> Type {
        if let Some(bound) = self.find(t) {
            return self.substitute(bound, free_to_dyn);
        }
        match t {
            Type::Param(_) if free_to_dyn => Type::Dyn,
            Type::List(element) => Type::list(self.substitute(element, free_to_dyn)),
            Type::Map(entry) => Type::map(
                self.substitute(&entry.0, free_to_dyn),
                self.substitute(&entry.1, free_to_dyn),
            ),
            Type::Opaque(name, parameters) if !parameters.is_empty() => Type::Opaque(
                name.clone(),
                parameters.iter().map(|p| self.substitute(p, free_to_dyn)).collect(),
            ),
            Type::Type(Some(inner)) => Type::Type(Some(Arc::new(self.substitute(inner, free_to_dyn)))),
            other => other.clone(),
        }
    }
}

/// Types that accept `null` although they are not dynamic.
fn nullable(t: &Type) -> bool {
    matches!(
        t,
        Type::Null
            | Type::Any
            | Type::Wrapper(_)
            | Type::Opaque(..)
            | Type::Struct(_)
            | Type::Duration
            | Type::Timestamp
    )
}

/// The more general of two compatible types.
pub(crate) fn most_general<'t>(a: &'t Type, b: &'t Type) -> &'t Type {
    if equal_or_less_specific(a, b) { a } else { b }
}

fn equal_or_less_specific(a: &Type, b: &Type) -> bool {
    if matches!(a, Type::Dyn | Type::Any | Type::Param(_)) {
        return true;
    }
    if matches!(b, Type::Dyn | Type::Any | Type::Param(_)) {
        return false;
    }
    match (a, b) {
        (Type::Opaque(a, a_parameters), Type::Opaque(b, b_parameters)) => {
            a == b
                && a_parameters.len() == b_parameters.len()
                && a_parameters
                    .iter()
                    .zip(b_parameters.iter())
                    .all(|(a, b)| equal_or_less_specific(a, b))
        }
        (Type::List(a), Type::List(b)) => equal_or_less_specific(a, b),
        (Type::Map(a), Type::Map(b)) => equal_or_less_specific(&a.0, &b.0) && equal_or_less_specific(&a.1, &b.1),
        (Type::Type(_), Type::Type(_)) => true,
        (Type::Wrapper(inner), _) if **inner == *b => true,
        _ => a == b,
    }
}
