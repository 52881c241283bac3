//! The decoder's position in a document: strict errors name keys and indices, type errors name Go fields.

use super::table::{Field, Type};

/// A path in a document, as a linked list on the stack.
pub(super) struct Path<'a> {
    pub(super) parent: Option<&'a Path<'a>>,
    pub(super) step: Step<'a>,
}

#[derive(Clone, Copy)]
pub(super) enum Step<'a> {
    Root,
    Field(&'static Type, &'static Field),
    Key(&'a str),
    Index(usize),
    /// The start of a document that an `UnmarshalJSON` decodes.
    Nested,
}

impl<'a> Path<'a> {
    pub(super) const ROOT: Path<'static> = Path { parent: None, step: Step::Root };

    pub(super) fn then(&'a self, step: Step<'a>) -> Path<'a> {
        Path { parent: Some(self), step }
    }

    /// The path of a key in the current object: `spec.containers[0].name`.
    pub(super) fn of_key(&self, key: &str) -> String {
        let mut text = String::new();
        let mut has_steps = false;
        for step in self.steps() {
            let name = match step {
                Step::Field(_, field) => field.name,
                Step::Key(key) => key,
                Step::Index(index) => {
                    text.push_str(&format!("[{index}]"));
                    continue;
                }
                Step::Root | Step::Nested => continue,
            };
            if has_steps {
                text.push('.');
            }
            has_steps = true;
            text.push_str(name);
        }
        if has_steps {
            text.push('.');
        }
        text + key
    }

    /// Go's `UnmarshalTypeError`.
    pub(super) fn type_error(&self, found: &str, expected: &str) -> String {
        let mut owner = None;
        let mut is_nested = false;
        let mut names = Vec::new();
        for step in self.steps() {
            match step {
                Step::Field(schema, field) => {
                    if !is_nested {
                        owner = Some(schema.go_name());
                    }
                    names.extend(field.embedded);
                    names.push(field.name);
                }
                Step::Nested => is_nested = true,
                Step::Root | Step::Key(_) | Step::Index(_) => (),
            }
        }
        match owner {
            Some(owner) => {
                let field = names.join(".");
                format!("json: cannot unmarshal {found} into Go struct field {owner}.{field} of type {expected}")
            }
            None => format!("json: cannot unmarshal {found} into Go value of type {expected}"),
        }
    }

    fn steps(&self) -> impl Iterator<Item = Step<'a>> + use<'a> {
        let mut steps = vec![self.step];
        let mut parent = self.parent;
        while let Some(path) = parent {
            steps.push(path.step);
            parent = path.parent;
        }
        steps.into_iter().rev()
    }
}
