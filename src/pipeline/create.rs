//! POST: create.

use super::Exchange;
use super::outgoing::Outgoing;
use super::owner_references::{Seen, remove_duplicates};
use super::write::{Sent, Write, is_already_exists, wipe_system_fields};
use crate::admission::{Attributes, Operation};
use crate::body::Body;
use crate::object::{Object, generate_name};
use crate::request::body::{BodyForm, OptionsKind, check_new_name, ensure_namespace};
use crate::status::Status;
use bytes::Bytes;
use http::Response;
use serde_json::Value;

/// The attempts to create an object with a generated name (`maxNameGenerationCreateAttempts`).
const NAME_ATTEMPTS: usize = 8;

/// A create in progress.
pub(super) struct Create<'a, 'b> {
    pub(super) write: &'a mut Write<'b>,
}

impl Create<'_, '_> {
    /// Admits and creates the object.
    pub(super) async fn run(self, exchange: &mut Exchange) -> Result<Response<Body>, Status> {
        let options = self.write.options(OptionsKind::Create)?;
        let decoded = self.write.decode(&options, exchange)?;
        let mut sent = decoded.sent;
        let mut object = self.prepared(decoded.object)?;
        if remove_duplicates(&mut object, Seen::AsSent, &self.write.warnings) {
            sent.verbatim = None;
        }
        object.settle();
        let options = options.as_options_object(OptionsKind::Create);
        let mut attributes = Attributes {
            namespace_from_url: sent.lacks_namespace,
            ..self.write.attributes(Operation::Create, Some(object), None, options)
        };
        let own = self.write.admit(&mut attributes, exchange).await?;
        let owners = self.write.field_owners().of_admitted(&attributes, &sent.rest, own, || self.decoded_again());
        if let Some(object) = &attributes.object
            && self.write.target.subresource.is_empty()
            && self.write.target.must_be_named()
            && !self.is_named_later(object)
            && let Err(nameless) = check_new_name(object, self.write.target.kind())
        {
            return self.refuse_nameless(&attributes, &sent, nameless).await;
        }
        let base = generated_name_base(&attributes);
        let (is_only_attempt, mut attempt) = (base.is_none(), 1);
        loop {
            if let Some(base) = &base {
                draw_name(&mut attributes, base);
            }
            let outgoing = Outgoing { owners: owners.clone(), ..self.write.admitted(&attributes, &sent)? };
            if is_only_attempt {
                // The client's body is not held while webhooks answer.
                self.write.body = Bytes::new();
            }
            if let Some(refusal) = self.write.view().validate_write(&mut attributes, &outgoing, exchange).await? {
                return self.write.respond(refusal).await;
            }
            if is_only_attempt {
                // Only the outgoing body is held while the API server answers.
                attributes.object = None;
            }
            let answer = self.write.view().send_admitted(Operation::Create, outgoing, exchange).await?;
            if is_only_attempt || attempt == NAME_ATTEMPTS || !is_already_exists(&answer) {
                return self.write.respond(answer).await;
            }
            attempt += 1;
        }
    }

    /// Prepares the object in the body for the mutating phase.
    fn prepared(&self, mut object: Object) -> Result<Object, Status> {
        if self.write.target.subresource.is_empty() {
            wipe_system_fields(&mut object);
        }
        ensure_namespace(&mut object, self.write.target.expected_namespace())?;
        Ok(object)
    }

    /// Decodes and prepares the object again. The object is rarely needed twice, so no copy is kept.
    fn decoded_again(&self) -> Option<Object> {
        let form = BodyForm::Normal(self.write.schema.as_deref());
        let decoded = self.write.decode_body(self.write.media_type().ok()?, form).ok()?;
        self.prepared(decoded.object).ok()
    }

    /// Whether the storage names the object: a limit range without a name (`limitrangeStrategy.PrepareForCreate`).
    fn is_named_later(&self, object: &Object) -> bool {
        let kind = self.write.target.kind();
        (&*kind.group, &*kind.kind) == ("", "LimitRange") && object.name().is_empty()
    }

    /// Returns the refusal of an object that has no name after the mutating phase. The API server's refusal has the object's
    /// other errors too.
    async fn refuse_nameless(
        &self,
        attributes: &Attributes,
        sent: &Sent,
        nameless: Status,
    ) -> Result<Response<Body>, Status> {
        if !self.write.knows_dry_runs {
            return Err(nameless);
        }
        let answer = self.write.rehearse(self.write.admitted(attributes, sent)?).await?;
        if answer.status.is_success() { Err(nameless) } else { Ok(answer.into_response()) }
    }
}

/// Returns the base of a generated name, if the object needs one (`rest.BeforeCreate`).
fn generated_name_base(attributes: &Attributes) -> Option<String> {
    let object = attributes.object.as_ref()?;
    let wanted = attributes.subresource.is_empty() && object.name().is_empty() && !object.generate_name().is_empty();
    wanted.then(|| object.generate_name().to_owned())
}

/// Draws a name, so that the validating phase sees the stored name. The namespace of a namespace stays empty
/// (`handlers.createHandler`).
fn draw_name(attributes: &mut Attributes, base: &str) {
    let name = generate_name(base);
    if let Some(object) = &mut attributes.object {
        let _metadata_is_an_object = object.set(&["metadata", "name"], Value::from(name.as_str()));
    }
    attributes.name = name;
}
