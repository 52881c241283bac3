//! `metadata.initializers` of a body, for a server that has the field.

use super::{BodyForm, DecodedObject, MediaType, cannot_be_handled, decode_object};
use crate::initializers;
use crate::kind::GroupVersionKind;
use crate::status::Status;

impl DecodedObject {
    /// Adds `metadata.initializers` to an object that was decoded from `bytes` in its normal form, which lacks the field. Protobuf does not
    /// carry the field.
    ///
    /// # Errors
    /// 400 with the text of Go's decoder if the field has values of wrong types.
    pub(crate) fn with_initializers(
        mut self,
        bytes: &[u8],
        media_type: MediaType,
        expected: &GroupVersionKind,
    ) -> Result<Self, Status> {
        // The decoders report the field as unknown, so a body without unknown fields does not have it.
        if self.unknown.is_empty() {
            return Ok(self);
        }
        let sent = decode_object(bytes, media_type, expected, BodyForm::AsSent)?.object;
        let Some(value) = sent.get(&["metadata", "initializers"]) else { return Ok(self) };
        let decoded = initializers::decode(value)
            .map_err(|why| cannot_be_handled(&expected.kind, &expected.version, expected, &why))?;
        self.unknown.retain(|text| text != initializers::UNKNOWN_FIELD);
        self.unknown.extend(decoded.unknown);
        initializers::put(&mut self.object, decoded.value);
        self.is_verbatim = false;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn decoded(text: &str, media_type: MediaType) -> Result<DecodedObject, Status> {
        let kind = GroupVersionKind::new("", "v1", "ConfigMap");
        let decoded = decode_object(text.as_bytes(), media_type, &kind, BodyForm::Normal(None))?;
        decoded.with_initializers(text.as_bytes(), media_type, &kind)
    }

    #[test]
    fn the_field_is_kept_and_is_not_unknown() {
        let pending = json!({"pending": [{"name": "a.b.c"}]});
        for (text, media_type) in [
            (r#"{"metadata":{"name":"a","initializers":{"pending":[{"name":"a.b.c"}]}}}"#, MediaType::Json),
            ("metadata: {name: a, initializers: {pending: [{name: a.b.c}]}}", MediaType::Yaml),
            (
                r#"{"data":{"a":"1","a":"2"},"metadata":{"name":"a","initializers":{"pending":[{"name":"a.b.c"}]}}}"#,
                MediaType::Json,
            ),
        ] {
            let decoded = decoded(text, media_type).unwrap();
            assert_eq!(decoded.object.get(&["metadata", "initializers"]), Some(&pending), "{text}");
            assert!(!decoded.unknown.iter().any(|text| text.contains("initializers")), "{:?}", decoded.unknown);
            assert!(!decoded.is_verbatim);
        }
    }

    #[test]
    fn other_unknown_fields_stay_unknown() {
        let text = r#"{"foo":1,"metadata":{"name":"a","initializers":{"x":1},"bar":2}}"#;
        let unknown = decoded(text, MediaType::Json).unwrap().unknown;
        let expected = ["foo", "metadata.bar", "metadata.initializers.x"];
        assert_eq!(unknown, expected.map(|field| format!("unknown field {field:?}")));
        let without = decoded(r#"{"foo":1}"#, MediaType::Json).unwrap();
        assert_eq!(without.unknown, [r#"unknown field "foo""#]);
        assert!(decoded("{}", MediaType::Json).unwrap().is_verbatim);
    }

    #[test]
    fn null_is_no_value() {
        let decoded = decoded(r#"{"metadata":{"name":"a","initializers":null}}"#, MediaType::Json).unwrap();
        assert_eq!(decoded.object.get(&["metadata"]), Some(&json!({"name": "a"})));
        assert_eq!(decoded.unknown, [""; 0]);
        assert_ne!(decoded.object.into_value(), Value::Null);
    }

    #[test]
    fn a_value_of_another_type_is_refused() {
        let refusal = decoded(r#"{"metadata":{"initializers":"a"}}"#, MediaType::Json).unwrap_err();
        let message = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal string into Go struct field \
            ObjectMeta.metadata.initializers of type v1.Initializers";
        assert_eq!((refusal.code, refusal.message.as_str()), (400, message));
    }
}
