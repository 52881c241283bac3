//! The fields of a kubeconfig, with absolute paths.

use crate::object::decode::{self, InvalidYaml};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;

/// The fields of `clientcmd.api.Config` that clients need.
#[derive(Default)]
pub(super) struct Document {
    pub(crate) clusters: BTreeMap<String, Cluster>,
    pub(crate) users: BTreeMap<String, User>,
    pub(crate) contexts: BTreeMap<String, Context>,
    pub(crate) current_context: String,
}

#[derive(Default)]
pub(super) struct Cluster {
    pub server: String,
    pub(crate) tls_server_name: String,
    pub(crate) insecure_skip_tls_verify: bool,
    pub(crate) certificate_authority: String,
    pub(crate) certificate_authority_data: Vec<u8>,
    pub(crate) proxy_url: String,
    pub(crate) disable_compression: bool,
}

/// `AuthInfo`. It has no `Debug`: most of it is secret.
#[derive(Default)]
pub(super) struct User {
    pub(crate) client_certificate: String,
    pub(crate) client_certificate_data: Vec<u8>,
    pub(crate) client_key: String,
    pub(crate) client_key_data: Vec<u8>,
    pub(crate) token: String,
    pub(crate) token_file: String,
    pub(crate) username: String,
    pub(crate) password: String,
    pub(crate) impersonate: String,
    pub(crate) impersonate_uid: String,
    pub(crate) impersonate_groups: Vec<String>,
    pub(crate) impersonate_user_extra: BTreeMap<String, Vec<String>>,
    pub(crate) has_exec: bool,
    pub(crate) has_auth_provider: bool,
}

#[derive(Default)]
pub(super) struct Context {
    pub(crate) cluster: String,
    pub(crate) user: String,
}

/// The reason why a file is no kubeconfig: with the place of the error, and never with the value there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InvalidDocument {
    /// The file is no YAML.
    #[error(transparent)]
    Yaml(#[from] InvalidYaml),
    /// The apiVersion or the kind is another.
    #[error("no kind \"{kind}\" is registered for version \"{version}\": must be v1 Config")]
    Kind {
        /// The kind of the document.
        kind: String,
        /// The apiVersion of the document.
        version: String,
    },
    /// The document is no mapping.
    #[error("must be a mapping")]
    NoMapping,
    /// A field has another type.
    #[error("{path}: must be {wanted}")]
    Field {
        /// The path of the field.
        path: String,
        /// The type that the field must have.
        wanted: &'static str,
    },
    /// Two items of a list have the same name.
    #[error("{list}: duplicate name \"{name}\" in list")]
    Duplicate {
        /// The name of the list.
        list: String,
        /// The name of the items.
        name: String,
    },
}

impl Document {
    /// Reads JSON or YAML. Unknown fields are ignored; relative paths start in `folder`.
    ///
    /// # Errors
    /// If a field is invalid.
    pub(super) fn read(bytes: &[u8], folder: &Path) -> Result<Self, InvalidDocument> {
        let value = decode::yaml(bytes)?.value;
        let fields = Fields::of("", Some(&value))?;
        let (version, kind) = (fields.text("apiVersion")?, fields.text("kind")?);
        if !matches!(&*version, "" | "v1") || !matches!(&*kind, "" | "Config") {
            return Err(InvalidDocument::Kind { kind, version });
        }
        Ok(Self {
            clusters: fields.named("clusters", "cluster", |of| Cluster::read(of, folder))?,
            users: fields.named("users", "user", |of| User::read(of, folder))?,
            contexts: fields.named("contexts", "context", Context::read)?,
            current_context: fields.text("current-context")?,
        })
    }
}

impl Cluster {
    fn read(of: &Fields<'_>, folder: &Path) -> Result<Self, InvalidDocument> {
        Ok(Self {
            server: of.text("server")?,
            tls_server_name: of.text("tls-server-name")?,
            insecure_skip_tls_verify: of.flag("insecure-skip-tls-verify")?,
            certificate_authority: of.path("certificate-authority", folder)?,
            certificate_authority_data: of.data("certificate-authority-data")?,
            proxy_url: of.text("proxy-url")?,
            disable_compression: of.flag("disable-compression")?,
        })
    }
}

impl User {
    fn read(of: &Fields<'_>, folder: &Path) -> Result<Self, InvalidDocument> {
        Ok(Self {
            client_certificate: of.path("client-certificate", folder)?,
            client_certificate_data: of.data("client-certificate-data")?,
            client_key: of.path("client-key", folder)?,
            client_key_data: of.data("client-key-data")?,
            token: of.text("token")?,
            token_file: of.path("tokenFile", folder)?,
            username: of.text("username")?,
            password: of.text("password")?,
            impersonate: of.text("as")?,
            impersonate_uid: of.text("as-uid")?,
            impersonate_groups: of.texts("as-groups")?,
            impersonate_user_extra: of.text_lists("as-user-extra")?,
            has_exec: of.get("exec").is_some(),
            has_auth_provider: of.get("auth-provider").is_some(),
        })
    }
}

impl Context {
    fn read(of: &Fields<'_>) -> Result<Self, InvalidDocument> {
        Ok(Self { cluster: of.text("cluster")?, user: of.text("user")? })
    }
}

/// An object in the file, and its path. A null field counts as missing.
struct Fields<'a> {
    path: String,
    fields: Option<&'a Map<String, Value>>,
}

impl<'a> Fields<'a> {
    fn of(path: &str, value: Option<&'a Value>) -> Result<Self, InvalidDocument> {
        let fields = match value {
            None | Some(Value::Null) => None,
            Some(Value::Object(fields)) => Some(fields),
            Some(_) if path.is_empty() => return Err(InvalidDocument::NoMapping),
            Some(_) => return Err(InvalidDocument::Field { path: path.to_owned(), wanted: "a mapping" }),
        };
        Ok(Self { path: path.to_owned(), fields })
    }

    fn get(&self, field: &str) -> Option<&'a Value> {
        self.fields?.get(field).filter(|value| !value.is_null())
    }

    fn must<T>(&self, field: &str, wanted: &'static str) -> Result<T, InvalidDocument> {
        let dot = if self.path.is_empty() { "" } else { "." };
        Err(InvalidDocument::Field { path: format!("{}{dot}{field}", self.path), wanted })
    }

    fn text(&self, field: &str) -> Result<String, InvalidDocument> {
        match self.get(field) {
            None => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(_) => self.must(field, "a string"),
        }
    }

    fn path(&self, field: &str, folder: &Path) -> Result<String, InvalidDocument> {
        let text = self.text(field)?;
        Ok(if text.is_empty() { text } else { folder.join(text).to_string_lossy().into_owned() })
    }

    fn flag(&self, field: &str) -> Result<bool, InvalidDocument> {
        match self.get(field) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => self.must(field, "true or false"),
        }
    }

    fn data(&self, field: &str) -> Result<Vec<u8>, InvalidDocument> {
        let text: String = self.text(field)?.split(['\r', '\n']).collect();
        STANDARD.decode(text).or_else(|_| self.must(field, "base64"))
    }

    fn list(&self, field: &str) -> Result<&'a [Value], InvalidDocument> {
        match self.get(field) {
            None => Ok(&[]),
            Some(Value::Array(items)) => Ok(items),
            Some(_) => self.must(field, "a list"),
        }
    }

    fn texts(&self, field: &str) -> Result<Vec<String>, InvalidDocument> {
        let text = |item: &Value| match item {
            Value::String(text) => Ok(text.clone()),
            _ => self.must(field, "a list of strings"),
        };
        self.list(field)?.iter().map(text).collect()
    }

    fn text_lists(&self, field: &str) -> Result<BTreeMap<String, Vec<String>>, InvalidDocument> {
        let inside = Fields::of(&format!("{}.{field}", self.path), self.get(field))?;
        inside.fields.into_iter().flatten().map(|(key, _)| Ok((key.clone(), inside.texts(key)?))).collect()
    }

    /// Reads a list of `{name, <inner>}`, by name.
    fn named<T>(
        &self,
        field: &str,
        inner: &str,
        read: impl Fn(&Fields<'a>) -> Result<T, InvalidDocument>,
    ) -> Result<BTreeMap<String, T>, InvalidDocument> {
        let mut all = BTreeMap::new();
        for (index, item) in self.list(field)?.iter().enumerate() {
            let path = format!("{field}[{index}]");
            let item = Fields::of(&path, Some(item))?;
            let name = item.text("name")?;
            let read = read(&Fields::of(&format!("{path}.{inner}"), item.get(inner))?)?;
            if all.contains_key(&name) {
                return Err(InvalidDocument::Duplicate { list: field.to_owned(), name });
            }
            all.insert(name, read);
        }
        Ok(all)
    }
}
