//! Unknown fields of built-in kinds, which an API server of a later release has. Plugins do not see them. Every write that is sent
//! has them.

use crate::kind::GroupVersionKind;
use crate::object::{Object, typed};
use crate::request::body::Unseen;
use crate::status::Status;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// The unknown fields of one object, and the object without them before admission.
#[derive(Clone, Debug, Default)]
pub(super) struct Rest(Held);

#[derive(Clone, Debug, Default)]
enum Held {
    #[default]
    Nothing,
    Fields(typed::Rest, Map<String, Value>),
    Bytes,
}

const OPAQUE: &str = "the body has fields in protobuf that kube-admission-proxy does not know, so that only the body as it came can be \
    passed on, and admission changes the object: send it as application/json";

impl Rest {
    /// Holds the unknown fields of a body that was decoded to this object.
    pub(super) fn of(unseen: Unseen, object: &Object) -> Self {
        Self(match unseen {
            Unseen::Nothing => Held::Nothing,
            Unseen::Fields(rest) => Held::Fields(rest, object.fields().clone()),
            Unseen::Bytes => Held::Bytes,
        })
    }

    /// Takes the unknown fields out of an object.
    pub(super) fn take(kind: &GroupVersionKind, object: &mut Object) -> Self {
        if !typed::has_rest(kind, object.fields()) {
            return Self::default();
        }
        let rest = typed::Rest::take(kind, object.fields_mut());
        rest.map_or_else(Self::default, |rest| Self::of(Unseen::Fields(rest), object))
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self.0, Held::Nothing)
    }

    /// Returns the admitted object for the API server: with the unknown fields, and with empty values that are not nil.
    ///
    /// # Errors
    /// 501 when admission changed a list and the item that has unknown fields cannot be identified; 415 for unknown fields in
    /// protobuf.
    pub(super) fn put_back<'o>(&self, admitted: &'o Object) -> Result<Cow<'o, Object>, Status> {
        let mut whole = admitted.whole();
        match &self.0 {
            Held::Nothing => {}
            Held::Fields(rest, before) => {
                let put = rest.put_back(before, whole.to_mut().fields_mut());
                put.map_err(|typed::Unplaced(place)| {
                    Status::not_implemented(&format!(
                        "{place} has fields that are not known here, and admission changed the list, so that it is not known \
                         which item they belong to; use a release of kube-admission-proxy for the API server's release"
                    ))
                })?;
            }
            Held::Bytes => return Err(Status::failure(415, "UnsupportedMediaType", OPAQUE)),
        }
        Ok(whole)
    }
}
