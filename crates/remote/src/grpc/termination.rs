//! How a service manager, or somebody at a terminal, asks brokers and workers to end.

/// Ready when the process is asked to end: by SIGTERM, or by Ctrl-C. Whoever asks from the moment this returns on, before
/// it is awaited too, is heard: say "running" after the call.
///
/// # Panics
///
/// Outside a `tokio` runtime.
#[cfg(unix)]
pub fn termination() -> impl Future<Output = ()> + Send + 'static {
    use tokio::signal::unix::{SignalKind, signal};
    let asked = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
    async move {
        let [terminated, interrupted] = asked;
        // A signal that can't be listened for ends the process by itself.
        let heard = |signal: std::io::Result<tokio::signal::unix::Signal>| async move {
            match signal {
                Ok(mut signal) => drop(signal.recv().await),
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            () = heard(terminated) => {}
            () = heard(interrupted) => {}
        }
    }
}

/// Ready when the process is asked to end, by Ctrl-C.
#[cfg(not(unix))]
pub async fn termination() {
    let _ = tokio::signal::ctrl_c().await;
}
