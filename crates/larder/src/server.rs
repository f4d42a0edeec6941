//! Until `larder_server` has its server: the same signatures, and connections that are closed at once.

use std::net::{SocketAddr, TcpListener};

use larder_server::settings::Settings;

pub(crate) struct Server(Vec<TcpListener>);

impl Server {
    pub(crate) fn start(settings: Settings) -> Result<Server, String> {
        let bind = |address: &SocketAddr| {
            TcpListener::bind(address).map_err(|error| format!("cannot listen on {address}: {error}"))
        };
        Ok(Server(settings.http.listen.iter().map(bind).collect::<Result<_, _>>()?))
    }

    pub(crate) fn local_addrs(&self) -> Vec<SocketAddr> {
        self.0.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }

    pub(crate) fn reload(&mut self, _settings: Settings) -> Result<(), String> {
        Ok(())
    }

    pub(crate) fn reopen_logs(&self) {}

    pub(crate) fn drain(self) {}
}
