//! The path of a value within a variable.

use std::cell::RefCell;
use std::rc::Rc;

/// The names of fields after a variable's. A path works like a Go slice: two paths that were appended to one share its memory while
/// capacity lasts, and the later one overwrites the earlier. cel-go's estimates depend on this.
#[derive(Clone, Default)]
pub(super) struct Path {
    memory: Rc<RefCell<Vec<Rc<str>>>>,
    capacity: usize,
    length: usize,
}

impl Path {
    /// The path of a variable.
    pub(super) fn of(variable: &str) -> Self {
        Self { memory: Rc::new(RefCell::new(vec![variable.into()])), capacity: 1, length: 1 }
    }

    /// Appends a name (`append`).
    pub(super) fn append(&self, name: &str) -> Self {
        let mut memory = self.memory.borrow_mut();
        if self.length < self.capacity {
            match memory.get_mut(self.length) {
                Some(part) => *part = name.into(),
                None => memory.push(name.into()),
            }
            return Self { memory: self.memory.clone(), length: self.length + 1, ..*self };
        }
        let mut own: Vec<Rc<str>> = memory.iter().take(self.length).cloned().collect();
        own.push(name.into());
        Self { memory: Rc::new(RefCell::new(own)), capacity: (2 * self.capacity).max(1), length: self.length + 1 }
    }

    /// Whether the path is known.
    pub(super) fn is_known(&self) -> bool {
        self.length > 0
    }

    /// Calls `look` with the names.
    pub(super) fn read<T>(&self, look: impl FnOnce(&[&str]) -> T) -> T {
        let memory = self.memory.borrow();
        let names: Vec<&str> = memory.iter().take(self.length).map(|part| &**part).collect();
        look(&names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_share_memory_as_slices_of_go_do() {
        let text = |path: &Path| path.read(|names| names.join("."));
        let list = Path::of("self").append("list").append("@items");
        let (first, second) = (list.append("a"), list.append("b"));
        assert_eq!(
            (text(&list), text(&first), text(&second)),
            ("self.list.@items".into(), "self.list.@items.b".to_owned(), "self.list.@items.b".to_owned())
        );
        let own = second.append("c");
        let _ = second.append("d");
        assert_eq!(text(&own), "self.list.@items.b.c");
        assert!(!Path::default().is_known() && Path::default().append("@items").is_known());
    }
}
