//! TLS for databases: the files that a URL names for it, and what it means when
//! one side does not trust the other. Their client says that as if the connection
//! had broken.

use std::path::{Path, PathBuf};

use rustls::AlertDescription as Alert;
use sqlx_core::error::Error as SqlxError;

use crate::error::{Error, ErrorKind, Result};

/// What a URL says about TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tls {
    pub(crate) mode: Option<String>,
    pub(crate) authority: Option<PathBuf>,
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
}

impl Tls {
    /// Whether the files are there; the client would take one that is missing for
    /// a server that is away.
    pub(crate) fn check_files(&self, label: &str) -> Result<()> {
        let files = [&self.authority, &self.certificate, &self.key];
        for file in files.into_iter().flatten() {
            can_be_read(file, label)?;
        }
        Ok(())
    }
}

fn can_be_read(file: &Path, label: &str) -> Result<()> {
    match std::fs::read(file) {
        Ok(_) => Ok(()),
        Err(error) => {
            let why = format!("{}: {error}", file.display());
            Err(Error::new(ErrorKind::Config, "read a certificate", why).on(label))
        }
    }
}

/// Who does not trust whom. No request has left us then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Distrust {
    /// We the server's certificate.
    OfServer,
    /// The server ours, or that we have none.
    OfUs,
}

/// Whether a connection was not made for that reason.
pub(crate) fn distrust(error: &SqlxError) -> Option<Distrust> {
    let SqlxError::Io(error) = error else {
        return None;
    };
    match error.get_ref()?.downcast_ref()? {
        rustls::Error::InvalidCertificate(_) => Some(Distrust::OfServer),
        rustls::Error::AlertReceived(
            Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::AccessDenied
            | Alert::CertificateRequired,
        ) => Some(Distrust::OfUs),
        _ => None,
    }
}

/// What kind of error it is, if it is about a setting of the client or about trust: then
/// the server was never asked.
pub(crate) fn kind(error: &SqlxError) -> Option<ErrorKind> {
    match (error, distrust(error)) {
        (SqlxError::Configuration(_) | SqlxError::Tls(_), _) | (_, Some(Distrust::OfServer)) => {
            Some(ErrorKind::Config)
        }
        (_, Some(Distrust::OfUs)) => Some(ErrorKind::Denied),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_about_certificates_is_distrust() {
        let told = |error: rustls::Error| {
            let error = std::io::Error::new(std::io::ErrorKind::InvalidData, error);
            distrust(&SqlxError::Io(error))
        };
        let issuer = rustls::CertificateError::UnknownIssuer;
        let issuer = rustls::Error::InvalidCertificate(issuer);
        assert_eq!(told(issuer), Some(Distrust::OfServer));
        let unknown = rustls::Error::AlertReceived(Alert::UnknownCA);
        assert_eq!(told(unknown), Some(Distrust::OfUs));
        // These may come in the middle of an answer.
        for alert in [
            Alert::BadRecordMac,
            Alert::InternalError,
            Alert::CloseNotify,
        ] {
            assert_eq!(told(rustls::Error::AlertReceived(alert)), None);
        }
        assert_eq!(told(rustls::Error::DecryptError), None);
        let broken = SqlxError::Io(std::io::ErrorKind::ConnectionReset.into());
        assert_eq!(distrust(&broken), None);
    }

    #[test]
    fn a_file_that_is_missing_is_named() {
        let tls = Tls {
            key: Some("/nowhere/key.pem".into()),
            ..Tls::default()
        };
        let error = tls.check_files("postgres db:1/x").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("/nowhere/key.pem"), "{error}");
        Tls::default().check_files("postgres db:1/x").unwrap();
    }
}
