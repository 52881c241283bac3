//! 422: `field.ErrorList` and its texts.

use super::{Cause, Status};
use crate::kind::{GroupVersionKind, GroupVersionResource};
use std::collections::HashSet;

/// The bytes of the texts of causes after which further causes are counted alone. kube-apiserver has no such bound; no client reads more.
pub const MAX_BYTES: usize = 1 << 20;
/// The end of the text of a cause that stands for others.
const LEFT_OUT: &str = " more errors are left out";

/// `field.Invalid`.
pub fn invalid(field: &str, value: &str, why: &str) -> Cause {
    cause("FieldValueInvalid", field, format!("Invalid value: {value}: {why}"))
}

/// `field.TypeInvalid`.
pub fn of_type(field: &str, value: &str, why: &str) -> Cause {
    cause("FieldValueTypeInvalid", field, format!("Invalid value: {value}: {why}"))
}

/// `field.Required`.
pub fn required(field: &str, why: &str) -> Cause {
    cause("FieldValueRequired", field, format!("Required value: {why}"))
}

/// `field.Forbidden`.
pub fn forbidden(field: &str, why: &str) -> Cause {
    cause("FieldValueForbidden", field, format!("Forbidden: {why}"))
}

/// `field.NotSupported`.
pub fn not_supported(field: &str, value: &str, supported: &[&str]) -> Cause {
    let supported: Vec<_> = supported.iter().map(|value| format!("{value:?}")).collect();
    let message = format!("Unsupported value: {value:?}: supported values: {}", supported.join(", "));
    cause("FieldValueNotSupported", field, message)
}

/// Joins the errors to one text, each once (`utilerrors.NewAggregate`); `None` without errors.
pub fn aggregate(errors: impl IntoIterator<Item = String>) -> Option<String> {
    let errors: Vec<String> = errors.into_iter().collect();
    let mut known = HashSet::new();
    let texts: Vec<&str> = errors.iter().map(String::as_str).filter(|text| known.insert(*text)).collect();
    match texts[..] {
        [] => None,
        [text] => Some(text.to_owned()),
        _ => Some(format!("[{}]", texts.join(", "))),
    }
}

/// Creates the `NewInvalid` of these causes; `None` without causes. The texts end after [`MAX_BYTES`].
pub fn status(kind: &GroupVersionKind, name: &str, causes: Vec<Cause>) -> Option<Status> {
    let mut kept = Causes::default();
    kept.extend(causes);
    let causes = kept.into_vec();
    let text = aggregate(causes.iter().map(|cause| match left_out_by(cause) {
        Some(_) => cause.message.clone(),
        None => format!("{}: {}", cause.field, cause.message),
    }))?;
    Some(Status::invalid(&kind.group, &kind.kind, name, &text, causes))
}

/// Causes whose texts are bounded by [`MAX_BYTES`]. Further causes are counted.
#[derive(Clone, Debug, Default)]
pub struct Causes {
    kept: Vec<Cause>,
    bytes: usize,
    left_out: usize,
}

impl Causes {
    /// Adds a cause, which is made only if there is room for its texts.
    pub fn add(&mut self, cause: impl FnOnce() -> Cause) {
        match self.is_full() {
            true => self.left_out = self.left_out.saturating_add(1),
            false => self.keep(cause()),
        }
    }

    /// Adds a cause so many times.
    pub fn repeat(&mut self, times: usize, cause: impl Fn() -> Cause) {
        for done in 0..times {
            if self.is_full() {
                self.left_out = self.left_out.saturating_add(times - done);
                break;
            }
            self.keep(cause());
        }
    }

    /// Adds causes.
    pub fn extend(&mut self, causes: impl IntoIterator<Item = Cause>) {
        for cause in causes {
            match left_out_by(&cause) {
                Some(count) => self.left_out = self.left_out.saturating_add(count),
                None => self.push(cause),
            }
        }
    }

    /// Adds the causes of another list.
    pub fn append(&mut self, other: Self) {
        self.extend(other.kept);
        self.left_out = self.left_out.saturating_add(other.left_out);
    }

    /// Adds a cause.
    pub fn push(&mut self, cause: Cause) {
        self.add(|| cause);
    }

    fn keep(&mut self, cause: Cause) {
        self.bytes = self.bytes.saturating_add(cause.field.len()).saturating_add(cause.message.len());
        self.kept.push(cause);
    }

    /// True if the texts have reached their bound. Of further causes only the number is kept.
    pub fn is_full(&self) -> bool {
        self.bytes >= MAX_BYTES
    }

    /// Whether there is no cause.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of causes, with those that are left out.
    pub fn len(&self) -> usize {
        self.kept.len().saturating_add(self.left_out)
    }

    /// The causes. The last one gives the number of those that are left out.
    pub fn into_vec(mut self) -> Vec<Cause> {
        if self.left_out > 0 {
            self.kept.push(Cause { message: format!("{}{LEFT_OUT}", self.left_out), ..Cause::default() });
        }
        self.kept
    }
}

/// The number of causes for which a cause of [`Causes::into_vec`] stands.
fn left_out_by(cause: &Cause) -> Option<usize> {
    let count = cause.message.strip_suffix(LEFT_OUT).filter(|_| cause.reason.is_empty() && cause.field.is_empty())?;
    count.parse().ok()
}

/// Creates the error of an update without a required resourceVersion (`Store.Update`). kube-apiserver names the resource here, where
/// other errors name the kind.
pub fn without_version(resource: &GroupVersionResource, name: &str) -> Status {
    let cause = invalid("metadata.resourceVersion", "0", "must be specified for an update");
    let text = format!("{}: {}", cause.field, cause.message);
    Status::invalid(&resource.group, &resource.resource, name, &text, vec![cause])
}

/// Creates the `NewInvalid` for options of a request, whose kinds are in `meta.k8s.io`.
pub fn options(kind: &str, causes: Vec<Cause>) -> Option<Status> {
    status(&GroupVersionKind::new("meta.k8s.io", "v1", kind), "", causes)
}

fn cause(reason: &str, field: &str, message: String) -> Cause {
    Cause { reason: reason.into(), field: field.into(), message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn causes(count: usize, bytes: usize) -> Vec<Cause> {
        (0..count).map(|at| invalid(&format!("f[{at}]"), "1", &"x".repeat(bytes))).collect()
    }

    fn pod() -> GroupVersionKind {
        GroupVersionKind::new("", "v1", "Pod")
    }

    #[test]
    fn causes_within_the_bound_are_all_there() {
        let all = causes(100, 1000);
        let status = status(&pod(), "a", all.clone()).unwrap();
        let texts: Vec<String> = all.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        assert_eq!(status.message, format!("Pod \"a\" is invalid: [{}]", texts.join(", ")));
        assert_eq!(status.details.unwrap().causes, all);
    }

    #[test]
    fn causes_beyond_the_bound_are_counted() {
        let status = status(&pod(), "a", causes(2500, 1000)).unwrap();
        assert!(status.message.len() < MAX_BYTES + 16_000, "{}", status.message.len());
        let causes = status.details.unwrap().causes;
        let left_out = 2500 - (causes.len() - 1);
        assert_eq!(causes.last().unwrap().message, format!("{left_out} more errors are left out"));
        assert!(status.message.ends_with(&format!(", {left_out} more errors are left out]")), "{left_out}");
    }

    #[test]
    fn the_causes_that_several_lists_leave_out_are_added_up() {
        let bounded = |count: usize| {
            let mut found = Causes::default();
            found.extend(causes(count, 1000));
            found.into_vec()
        };
        let both = [bounded(2000), bounded(2000)].concat();
        let causes = status(&pod(), "a", both).unwrap().details.unwrap().causes;
        assert_eq!(causes.last().unwrap().message, format!("{} more errors are left out", 4000 - (causes.len() - 1)));
    }

    #[test]
    fn no_text_is_made_for_a_cause_that_is_left_out() {
        let mut found = Causes::default();
        let mut made = 0;
        for _ in 0..5000 {
            found.add(|| {
                made += 1;
                invalid("f", "1", &"x".repeat(1000))
            });
        }
        found.repeat(5000, || unreachable!("there is no room"));
        assert!(made < 1100, "{made}");
        assert_eq!(found.len(), 10_000);
    }

    #[test]
    fn an_aggregate_has_each_error_once_in_order() {
        let all = ["b", "a", "b"].map(str::to_owned);
        assert_eq!(aggregate(all).as_deref(), Some("[b, a]"));
        assert_eq!(aggregate(["a", "a"].map(str::to_owned)).as_deref(), Some("a"));
        assert_eq!(aggregate([]), None);
    }
}
