//! One order with its directory, from the account to the certificate.

use std::{fmt, sync::Arc, time::Duration};

use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeType, Error, ExternalAccountKey,
    Identifier, NewAccount, NewOrder, Order, OrderStatus, RetryPolicy,
};
use larder_server::{
    acme::{Acme, OpenChallenge},
    settings::{AcmeSettings, Certificate, CertificateSource, ChallengeKind},
};
use tokio::time::timeout;

use super::{http::Client, schedule::Advice, store::Store};

/// The time for a whole order.
const ORDER: Duration = Duration::from_secs(300);

/// Waits for the directory: for its proof, and for the certificate. It is asked until 120 seconds
/// have passed: the policy gives up before a wait that would end after its timeout, and the last
/// wait is 12 seconds.
const RETRY: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(500))
    .backoff(1.1)
    .timeout(Duration::from_secs(132));

/// The directory's words for an account that it does not know.
const NO_ACCOUNT: &str = "urn:ietf:params:acme:error:accountDoesNotExist";

/// The directory's words for "too many".
const RATE_LIMITED: &str = "urn:ietf:params:acme:error:rateLimited";

/// A certificate that an order gave.
pub(super) struct Ordered {
    /// The chain in PEM.
    pub(super) chain: String,
    /// Its key in PEM.
    pub(super) key: String,
    /// The same, read.
    pub(super) certificate: Certificate,
}

/// Reasons why there is no certificate.
#[derive(Debug)]
pub(super) enum Failure {
    /// The directory could not be asked, or does not speak as expected.
    Directory(Error),
    /// It did not take the proof, or refused the name.
    Refused {
        /// The kind of the problem (RFC 8555 section 6.7).
        kind: String,
        /// The directory's words.
        detail: String,
    },
    /// It does not offer the challenge that is configured.
    NoChallenge(ChallengeKind),
    /// The order took too long.
    Slow,
    /// It gave a certificate that cannot be used.
    Useless(String),
    /// A file of `state_dir` could not be read or written.
    Files(String),
    /// The new certificate would have to be renewed at once.
    AlreadyDue,
}

impl Failure {
    /// Equal for failures of the same kind: each is told once.
    pub(super) fn kind(&self) -> &str {
        match self {
            Failure::Directory(_) => "directory",
            Failure::Refused { kind, .. } => kind,
            Failure::NoChallenge(_) => "challenge",
            Failure::Slow => "slow",
            Failure::Useless(_) => "useless",
            Failure::Files(_) => "files",
            Failure::AlreadyDue => "due",
        }
    }

    /// The directory does not know the account.
    pub(super) fn is_of_account(&self) -> bool {
        matches!(self, Failure::Refused { kind, .. } if kind == NO_ACCOUNT)
    }

    /// There were too many orders.
    pub(super) fn is_limit(&self) -> bool {
        matches!(self, Failure::Refused { kind, .. } if kind == RATE_LIMITED)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let Error::Api(problem) = error else { return Failure::Directory(error) };
        let kind = problem.r#type.clone().unwrap_or_default();
        let mut details: Vec<String> = problem.detail.iter().cloned().collect();
        details.extend(problem.subproblems.iter().filter_map(|part| part.detail.clone()));
        Failure::Refused { kind, detail: details.join("; ") }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Directory(error) => write!(f, "{error}"),
            Failure::Refused { kind, detail } => {
                let kind = kind.rsplit(':').next().unwrap_or_default();
                write!(f, "the directory refuses: {detail} ({kind})")
            }
            Failure::NoChallenge(kind) => {
                write!(f, "the directory does not offer {}", kind.as_str())
            }
            Failure::Slow => f.write_str("the directory took too long"),
            Failure::Useless(reason) => {
                write!(f, "the directory gave a certificate that cannot be used: {reason}")
            }
            Failure::Files(reason) => f.write_str(reason),
            Failure::AlreadyDue => f.write_str(
                "the new certificate is due already: is the clock of this machine right?",
            ),
        }
    }
}

/// Opens the account that is kept, or makes one and keeps it.
pub(super) async fn account(settings: &AcmeSettings, store: &Store) -> Result<Account, Failure> {
    let client = Client::new(&settings.roots).map_err(|error| Error::Other(error.into()))?;
    let builder = Account::builder_with_http(Box::new(client));
    if let Some(credentials) = store.account().map_err(Failure::Files)? {
        return Ok(builder.from_credentials(credentials).await?);
    }
    let contact = settings.email.as_ref().map(|email| format!("mailto:{email}"));
    let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
    let new = NewAccount {
        contact: &contact,
        terms_of_service_agreed: true,
        only_return_existing: false,
    };
    let external = settings.external_account.as_ref();
    let external = external.map(|held| ExternalAccountKey::new(held.kid.clone(), &held.key));
    let (account, credentials) =
        builder.create(&new, settings.directory.clone(), external.as_ref()).await?;
    store.save_account(&credentials).map_err(Failure::Files)?;
    Ok(account)
}

/// The directory's advice when to renew a certificate (RFC 9773); None: it has none.
pub(super) async fn advice(account: &Account, certificate: &Certificate) -> Option<Advice> {
    let id = CertificateIdentifier::try_from(certificate.key.cert.first()?).ok()?;
    let (info, again) = account.renewal_info(&id).await.ok()?;
    let window = info.suggested_window;
    let (start, end) = (window.start.unix_timestamp(), window.end.unix_timestamp());
    let again = i64::try_from(again.as_secs()).unwrap_or(i64::MAX);
    (start <= end).then_some(Advice { start, end, again })
}

/// Orders a certificate for one name.
pub(super) async fn order(
    account: &Account,
    settings: &AcmeSettings,
    name: &str,
    replaced: Option<&Certificate>,
    acme: &Arc<Acme>,
) -> Result<Ordered, Failure> {
    let ordered = timeout(ORDER, async {
        let own = replaced.and_then(|certificate| certificate.key.cert.first());
        let replaced = own.and_then(|own| CertificateIdentifier::try_from(own).ok());
        let mut order = begin(account, name, replaced).await?;
        let proven = prove(&mut order, settings.challenge, acme).await;
        if let Err(failure) = proven {
            return Err(reason(&mut order).await.unwrap_or(failure));
        }
        let key = order.finalize().await?;
        Ok((order.poll_certificate(&RETRY).await?, key))
    });
    let (chain, key) = ordered.await.map_err(|_| Failure::Slow)??;
    let mut certificate = Certificate::parse(chain.as_bytes(), key.as_bytes())
        .map_err(|error| Failure::Useless(error.to_string()))?;
    if certificate.rank(name).is_none() {
        return Err(Failure::Useless(format!("it is not for {name}")));
    }
    certificate.source = CertificateSource::Acme;
    Ok(Ordered { chain, key, certificate })
}

/// Opens an order, as the successor of a certificate where the directory knows that (RFC 9773
/// section 5).
async fn begin(
    account: &Account,
    name: &str,
    replaced: Option<CertificateIdentifier<'_>>,
) -> Result<Order, Failure> {
    let names = [Identifier::Dns(name.to_owned())];
    if let Some(id) = replaced {
        match account.new_order(&NewOrder::new(&names).replaces(id)).await.map_err(Failure::from) {
            Ok(order) => return Ok(order),
            // These have nothing to do with the certificate that is replaced.
            Err(failure) if failure.is_of_account() || failure.is_limit() => return Err(failure),
            Err(_) => {}
        }
    }
    Ok(account.new_order(&NewOrder::new(&names)).await?)
}

/// Proves that the name belongs to this machine. The answers to challenges are given until the
/// directory has decided.
async fn prove(order: &mut Order, kind: ChallengeKind, acme: &Arc<Acme>) -> Result<(), Failure> {
    let wanted = match kind {
        ChallengeKind::Http01 => ChallengeType::Http01,
        ChallengeKind::TlsAlpn01 => ChallengeType::TlsAlpn01,
    };
    let mut open: Vec<OpenChallenge> = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        if authorization.status == AuthorizationStatus::Valid {
            continue;
        }
        let challenge = authorization.challenge(wanted.clone());
        let mut challenge = challenge.ok_or(Failure::NoChallenge(kind))?;
        let proof = challenge.key_authorization();
        open.push(match kind {
            ChallengeKind::Http01 => acme.open_http(&challenge.token, proof.as_str()),
            ChallengeKind::TlsAlpn01 => {
                let name = challenge.identifier().to_string();
                acme.open_tls(&name, proof.digest().as_ref())
                    .map_err(|error| Failure::Useless(error.to_string()))?
            }
        });
        challenge.set_ready().await?;
    }
    match order.poll_ready(&RETRY).await? {
        OrderStatus::Ready => Ok(()),
        status => Err(Failure::Refused { kind: String::new(), detail: format!("{status:?}") }),
    }
}

/// The words with which the directory turned down a proof; None: it did not.
async fn reason(order: &mut Order) -> Option<Failure> {
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization.ok()?;
        let state = authorization.refresh().await.ok()?;
        let problem = state.challenges.iter().find_map(|challenge| challenge.error.clone());
        if let Some(problem) = problem {
            return Some(Error::Api(problem).into());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::{
        pin::Pin,
        sync::atomic::{AtomicU32, Ordering},
    };

    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::Full;
    use instant_acme::{BodyWrapper, BytesResponse, HttpClient};
    use rustls::pki_types::Der;

    use super::*;

    /// A directory that refuses every order with this type of problem, and counts them.
    struct Refusing(&'static str, Arc<AtomicU32>);

    impl HttpClient for Refusing {
        fn request(
            &self,
            request: Request<BodyWrapper<Bytes>>,
        ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
            let url = |path: &str| format!("https://ca.example/{path}");
            let (status, body) = match request.uri().path() {
                "/order" => {
                    self.1.fetch_add(1, Ordering::Relaxed);
                    (429, serde_json::json!({ "type": self.0 }))
                }
                "/account" => (201, serde_json::json!({})),
                _ => {
                    let (nonce, account) = (url("nonce"), url("account"));
                    let (order, info) = (url("order"), url("info"));
                    let directory = serde_json::json!({
                        "newNonce": nonce, "newAccount": account, "newOrder": order,
                        "renewalInfo": info,
                    });
                    (200, directory)
                }
            };
            let answer = Response::builder()
                .status(status)
                .header("Replay-Nonce", "nonce")
                .header("Location", url("account/1"))
                .body(Full::new(Bytes::from(body.to_string())));
            Box::pin(async { Ok(BytesResponse::from(answer?)) })
        }
    }

    /// How often an order that replaces a certificate is sent to such a directory.
    async fn orders(refusal: &'static str) -> u32 {
        let count = Arc::new(AtomicU32::new(0));
        let new =
            NewAccount { contact: &[], terms_of_service_agreed: true, only_return_existing: false };
        let builder = Account::builder_with_http(Box::new(Refusing(refusal, count.clone())));
        let (account, _) =
            builder.create(&new, "https://ca.example/".to_owned(), None).await.unwrap();
        let id = CertificateIdentifier::new(Der::from_slice(b"authority"), Der::from_slice(b"1"));
        let begun = begin(&account, "a.example", Some(id)).await;
        assert!(matches!(begun, Err(Failure::Refused { kind, .. }) if kind == refusal));
        count.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn a_refusal_of_the_account_or_by_a_limit_is_not_asked_for_twice() {
        assert_eq!(orders(RATE_LIMITED).await, 1);
        assert_eq!(orders(NO_ACCOUNT).await, 1);
        assert_eq!(orders("urn:ietf:params:acme:error:alreadyReplaced").await, 2);
    }
}
