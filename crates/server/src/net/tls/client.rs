//! The certificate of a client, as requests need it.

use std::{fmt::Write, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD};
use rustls::pki_types::CertificateDer;
use x509_parser::{
    certificate::X509Certificate,
    objects::{oid_registry, oid2abbrev},
    prelude::FromDer,
    x509::AttributeTypeAndValue,
};

use crate::settings::ClientAuth;

/// A client that was asked for a certificate.
pub(crate) struct Client {
    /// The rules by which it was verified.
    pub(crate) auth: Arc<ClientAuth>,
    /// None: it has none.
    pub(crate) certificate: Option<ClientCertificate>,
}

/// A certificate that was verified.
pub(crate) struct ClientCertificate {
    /// Itself as the value of `Client-Cert` (RFC 9440 section 2.1).
    pub(crate) field: String,
    /// Its subject (RFC 4514), in visible ASCII.
    pub(crate) subject: String,
    /// Seconds since 1970 of the last moment at which it is valid.
    pub(crate) not_after: i64,
}

impl Client {
    /// `chain`: as the client has sent it, its own first.
    pub(super) fn new(auth: &Arc<ClientAuth>, chain: Option<&[CertificateDer<'static>]>) -> Self {
        let own = chain.and_then(|chain| chain.first());
        Self { auth: auth.clone(), certificate: own.and_then(|own| ClientCertificate::new(own)) }
    }
}

impl ClientCertificate {
    fn new(der: &[u8]) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(der).ok()?;
        let mut subject = String::new();
        let names: Vec<_> = parsed.subject().iter().collect();
        for (at, name) in names.iter().rev().enumerate() {
            for (part, attribute) in name.iter().enumerate() {
                subject.push_str(match (at, part) {
                    (0, 0) => "",
                    (_, 0) => ",",
                    _ => "+",
                });
                write_attribute(&mut subject, attribute);
            }
        }
        Some(Self {
            field: format!(":{}:", STANDARD.encode(der)),
            subject,
            not_after: parsed.validity().not_after.timestamp(),
        })
    }
}

/// Appends an attribute (RFC 4514 sections 2.3 and 2.4).
fn write_attribute(out: &mut String, attribute: &AttributeTypeAndValue<'_>) {
    match oid2abbrev(attribute.attr_type(), oid_registry()) {
        Ok(name) => out.push_str(name),
        Err(_) => out.push_str(&attribute.attr_type().to_id_string()),
    }
    out.push('=');
    match attribute.as_str() {
        Ok(value) => write_value(out, value),
        Err(_) => {
            out.push('#');
            attribute.attr_value().data.iter().for_each(|byte| hex(out, *byte));
        }
    }
}

fn write_value(out: &mut String, value: &str) {
    let last = value.len().saturating_sub(1);
    for (at, byte) in value.bytes().enumerate() {
        match byte {
            b'"' | b'+' | b',' | b';' | b'<' | b'>' | b'\\' => out.extend(['\\', byte as char]),
            b'#' if at == 0 => out.push_str("\\#"),
            b' ' if at == 0 || at == last => out.push_str("\\ "),
            b' '..=b'~' => out.push(byte as char),
            _ => {
                out.push('\\');
                hex(out, byte);
            }
        }
    }
}

fn hex(out: &mut String, byte: u8) {
    let _ = write!(out, "{byte:02X}");
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    fn subject(names: &[(DnType, &str)]) -> String {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in names {
            params.distinguished_name.push(kind.clone(), *value);
        }
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        ClientCertificate::new(certificate.der()).expect("readable").subject
    }

    #[test]
    fn a_subject_says_what_it_is_and_no_name_in_it_forges_another() {
        let named = [(DnType::OrganizationName, "Example"), (DnType::CommonName, "alice")];
        assert_eq!(subject(&named), "CN=alice,O=Example");
        let forged = [(DnType::CommonName, "alice,O=Example+x=\"\\\r\nHost: a")];
        assert_eq!(subject(&forged), r#"CN=alice\,O=Example\+x=\"\\\0D\0AHost: a"#);
        assert_eq!(subject(&[(DnType::CommonName, "#a ")]), r"CN=\#a\ ");
        assert_eq!(subject(&[(DnType::CommonName, "\u{fc}")]), r"CN=\C3\BC");
    }
}
