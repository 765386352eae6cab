//! An upload in parts, made slow: each part is a request of its own.

use std::sync::Arc;

use async_trait::async_trait;
use object_store::{MultipartUpload, PutPayload, PutResult, Result, UploadPart};

use super::{Kind, Shared};

#[derive(Debug)]
pub(crate) struct SlowUpload {
    pub(crate) inner: Box<dyn MultipartUpload>,
    pub(crate) shared: Arc<Shared>,
}

#[async_trait]
impl MultipartUpload for SlowUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (shared, bytes) = (Arc::clone(&self.shared), data.content_length() as u64);
        let part = self.inner.put_part(data);
        Box::pin(async move { shared.write(Kind::Put, bytes, part).await })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let shared = Arc::clone(&self.shared);
        shared.write(Kind::Put, 0, self.inner.complete()).await
    }

    async fn abort(&mut self) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        shared.write(Kind::Put, 0, self.inner.abort()).await
    }
}
