//! TLS to servers by the authorities that this system trusts, for the programs that ask a Larder or
//! a site over HTTPS.

#![forbid(unsafe_code)]

use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};

/// The side of a client that trusts the authorities of the system, or those of `SSL_CERT_FILE`. It
/// reads their files at each call.
///
/// # Errors
/// There is no authority that can be used: no server can be trusted. The error is a sentence for
/// the user.
pub fn client_config() -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err("this system knows no authority: set SSL_CERT_FILE".to_owned());
    }
    let builder = ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
