//! Assignability of types with type parameters, as in cel-go.

use crate::types::{MAX_TYPES, Type};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

/// The number of type comparisons for one expression. A parameter's type can contain other parameters twice, so that comparisons grow
/// exponentially.
const MAX_STEPS: usize = 10_000_000;

/// The types of type parameters so far.
#[derive(Debug, Default)]
pub(super) struct Substitutions {
    known: HashMap<Arc<str>, Type>,
    /// Previous entries, to undo a failed assignment.
    journal: Vec<(Arc<str>, Option<Type>)>,
    /// The number of comparisons of two types.
    steps: Cell<usize>,
}

impl Substitutions {
    /// Whether a type is assignable to another one. If so, records the types of parameters (`isAssignable`).
    pub(super) fn assign(&mut self, from: &Type, to: &Type) -> bool {
        self.attempt(|known| known.assignable(from, to))
    }

    /// Whether several types are assignable, as [`Self::assign`] (`isAssignableList`).
    pub(super) fn assign_all(&mut self, from: &[Type], to: &[Type]) -> bool {
        self.attempt(|known| known.all_assignable(from.iter(), to.iter()))
    }

    /// Replaces type parameters by their types; with `dynamic`, unknown parameters become dyn (`substitute`). Omits parts that would make
    /// the type too large.
    pub(super) fn substitute(&self, of: &Type, dynamic: bool) -> Type {
        self.put_in(of, dynamic, &mut (2 * MAX_TYPES))
    }

    fn put_in(&self, of: &Type, dynamic: bool, left: &mut usize) -> Type {
        let Some(rest) = left.checked_sub(1) else { return Type::Dyn };
        *left = rest;
        match of {
            Type::Parameter(name) => match self.known.get(name) {
                Some(known) => self.put_in(known, dynamic, left),
                None if dynamic => Type::Dyn,
                None => of.clone(),
            },
            _ => of.map_parameters(&mut |parameter| self.put_in(parameter, dynamic, left)),
        }
    }

    fn attempt(&mut self, attempt: impl FnOnce(&mut Self) -> bool) -> bool {
        self.journal.clear();
        let fits = attempt(self);
        if !fits {
            for (name, before) in std::mem::take(&mut self.journal).into_iter().rev() {
                match before {
                    Some(before) => self.known.insert(name, before),
                    None => self.known.remove(&name),
                };
            }
        }
        fits
    }

    fn learn(&mut self, name: &Arc<str>, is: Type) {
        let before = self.known.insert(name.clone(), is);
        self.journal.push((name.clone(), before));
    }

    fn all_assignable<'t>(
        &mut self,
        from: impl ExactSizeIterator<Item = &'t Type>,
        to: impl ExactSizeIterator<Item = &'t Type>,
    ) -> bool {
        from.len() == to.len() && from.zip(to).all(|(from, to)| self.assignable(from, to))
    }

    /// Counts a comparison; false above the limit.
    fn step(&self) -> bool {
        self.steps.set(self.steps.get() + 1);
        self.steps.get() <= MAX_STEPS
    }

    fn assignable(&mut self, from: &Type, to: &Type) -> bool {
        if !self.step() {
            return false;
        }
        if let Type::Parameter(name) = to {
            match self.fits_parameter(from, to, name) {
                (true, _) => return true,
                (false, true) => return false,
                (false, false) => {}
            }
        }
        if let Type::Parameter(name) = from {
            return self.fits_parameter(to, from, name).0;
        }
        if from.is_unknown() || to.is_unknown() {
            return true;
        }
        match (from, to) {
            (Type::Null, other) | (other, Type::Null) => {
                matches!(
                    other,
                    Type::Null
                        | Type::Object(_)
                        | Type::Opaque(..)
                        | Type::Wrapper(_)
                        | Type::Duration
                        | Type::Timestamp
                )
            }
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(from), Type::List(to)) => self.assignable(from, to),
            (Type::Map(from_key, from), Type::Map(to_key, to)) => {
                self.assignable(from_key, to_key) && self.assignable(from, to)
            }
            (Type::Opaque(name, from), Type::Opaque(other, to)) => {
                name == other && self.all_assignable(from.iter(), to.iter())
            }
            _ => from == to,
        }
    }

    /// Whether a type can replace a parameter, and whether the parameter had a type before (`isValidTypeSubstitution`).
    fn fits_parameter(&mut self, of: &Type, parameter: &Type, name: &Arc<str>) -> (bool, bool) {
        if of == parameter {
            return (true, true);
        }
        if let Some(known) = self.known.get(name).cloned() {
            if *of == known {
                return (true, true);
            }
            if !self.assignable(of, &known) {
                return (false, true);
            }
            let general = most_general(of, &known).clone();
            if self.is_free_of(parameter, &general) {
                self.learn(name, general);
            }
            return (true, true);
        }
        let free = self.is_free_of(parameter, of);
        if free {
            self.learn(name, of.clone());
        }
        (free, false)
    }

    /// Whether a type parameter does not occur within a type (`notReferencedIn`).
    fn is_free_of(&self, parameter: &Type, within: &Type) -> bool {
        if parameter == within || !self.step() {
            return false;
        }
        match within {
            Type::Parameter(name) => self.known.get(name).is_none_or(|known| self.is_free_of(parameter, known)),
            _ => within.parameters().into_iter().all(|of| self.is_free_of(parameter, of)),
        }
    }
}

/// The more general of two compatible types (`mostGeneral`).
pub(super) fn most_general<'t>(first: &'t Type, second: &'t Type) -> &'t Type {
    if is_as_general(first, second) { first } else { second }
}

/// `isEqualOrLessSpecific`.
fn is_as_general(first: &Type, second: &Type) -> bool {
    match (first, second) {
        (Type::Dyn | Type::Any | Type::Parameter(_), _) => true,
        (_, Type::Dyn | Type::Any | Type::Parameter(_)) => false,
        (Type::Type(_), Type::Type(_)) => true,
        (Type::List(first), Type::List(second)) => is_as_general(first, second),
        (Type::Map(first_key, first), Type::Map(second_key, second)) => {
            is_as_general(first_key, second_key) && is_as_general(first, second)
        }
        (Type::Opaque(name, first), Type::Opaque(other, second)) => {
            name == other
                && first.len() == second.len()
                && first.iter().zip(second.iter()).all(|(first, second)| is_as_general(first, second))
        }
        _ => first == second,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn substitutions_of_a_misfit_are_taken_back() {
        let mut known = Substitutions::default();
        let of = |name: &str| Type::Parameter(name.into());
        assert!(!known.assign_all(&[Type::Int, Type::String], &[of("a"), of("a")]));
        assert_eq!(known.substitute(&of("a"), false), of("a"));
        assert!(known.assign_all(&[Type::Int, Type::list(of("b"))], &[of("a"), Type::list(of("a"))]));
        assert_eq!(known.substitute(&Type::list(of("b")), true), Type::list(Type::Int));
    }

    #[test]
    fn null_fits_messages_and_libraries_types_only() {
        let mut known = Substitutions::default();
        let fits = [Type::object("x"), Type::opaque("y"), Type::Duration, Type::Timestamp, Type::Null, Type::Dyn];
        assert!(fits.iter().all(|to| known.assign(&Type::Null, to)));
        assert!([Type::Int, Type::String, Type::list(Type::Null)].iter().all(|to| !known.assign(to, &Type::Null)));
    }
}
