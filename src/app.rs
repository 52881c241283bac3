//! To be written.

/// Runs the server.
pub async fn run(_config: crate::config::Config) -> anyhow::Result<()> {
    Ok(())
}
