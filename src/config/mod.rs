//! The configuration, parsed and complete: what the command line and the files it names say.

/// The server's configuration.
pub struct Config {}

/// One plugin's configuration from the AdmissionConfiguration file.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginConfiguration {
    /// Where it stands, for messages: a file, or a file and the plugin's entry.
    pub origin: String,
    /// Relative paths inside it start here.
    pub directory: std::path::PathBuf,
    /// The configuration as JSON.
    pub value: serde_json::Value,
}
