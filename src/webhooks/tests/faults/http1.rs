//! HTTP/1.1, and invalid HTTP/1.1.

use super::*;

#[tokio::test]
async fn faults_before_tls_have_gos_words() {
    let silent = early(|mut stream, _| async move { drain(&mut stream).await });
    assert_eq!(failure(&Faulty::start(silent)).await, "context deadline exceeded");

    let closed = early(|_, _| async {});
    let text = without_ports(&failure(&Faulty::start(closed)).await);
    // A connection that is closed with unread bytes is reset; and it may be closed before the client writes.
    let by_peer = "read tcp FROM->TO: read: connection reset by peer";
    let broken_pipe = "write tcp FROM->TO: write: broken pipe";
    assert!(["EOF", by_peer, broken_pipe].contains(&&*text), "{text}");

    let reset = early(|stream, _| async move { reset(&stream) });
    let text = without_ports(&failure(&Faulty::start(reset)).await);
    // The reset may come before the client notices that the connection is established.
    assert!(text.ends_with("connection reset by peer") || text == broken_pipe, "{text}");

    for (bytes, want) in [
        ("HTTP/1.1 400 Bad Request\r\n\r\n", "http: server gave HTTP response to HTTPS client"),
        ("SSH-2.0-OpenSSH_9.9\r\n", "tls: first record does not look like a TLS handshake"),
    ] {
        let other = early(move |mut stream, _| async move {
            write(&mut stream, bytes).await;
            drain(&mut stream).await;
        });
        assert_eq!(failure(&Faulty::start(other)).await, want);
    }
}

/// A server that reads a request, answers with these bytes, and closes.
fn answers(bytes: impl Into<Vec<u8>>) -> Misbehaviour {
    let bytes = Arc::new(bytes.into());
    late(move |mut stream, _| {
        let bytes = bytes.clone();
        async move {
            request(&mut stream).await;
            write(&mut stream, &*bytes).await;
            stream.shutdown().await.ok();
            drain(&mut stream).await;
        }
    })
}

#[tokio::test]
async fn malformed_responses_have_gos_words() {
    let broken = "net/http: HTTP/1.x transport connection broken: ";
    let in_body = "unexpected error when reading response body. Please retry. Original error: ";
    for (bytes, want) in [
        ("", "EOF".to_owned()),
        ("220 smtp.example ESMTP\r\n", format!("{broken}malformed HTTP status code \"smtp.example\"")),
        ("nonsense\n", format!("{broken}malformed HTTP response \"nonsense\"")),
        ("HTTP/1.1 2", format!("{broken}malformed HTTP status code \"2\"")),
        ("HTTP/1.1 200 OK\r\nA: b\r\n", format!("{broken}unexpected EOF")),
        ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{", format!("{in_body}unexpected EOF")),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n",
            format!("{in_body}invalid byte in chunk length"),
        ),
        (
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
            "the server responded with the status code 101 but did not return more information".to_owned(),
        ),
        (
            "HTTP/1.1 302 Found\r\nLocation: https://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
            "Post \"https://127.0.0.1:1/\": dial tcp 127.0.0.1:1: connect: connection refused".to_owned(),
        ),
        (
            "HTTP/1.1 300 Multiple Choices\r\nContent-Length: 0\r\n\r\n",
            "the server responded with the status code 300 but did not return more information".to_owned(),
        ),
    ] {
        assert_eq!(failure(&Faulty::start(answers(bytes))).await, want, "{bytes}");
    }
}

#[tokio::test]
async fn oversized_responses_have_gos_words() {
    let mut head = b"HTTP/1.1 200 OK\r\n".to_vec();
    while head.len() < 300 << 10 {
        head.extend(format!("X-{}: {}\r\n", head.len(), "y".repeat(8000)).bytes());
    }
    let text = failure(&Faulty::start(answers(head))).await;
    assert_eq!(text, "net/http: server response headers exceeded 262144 bytes; aborted");

    let endless = late(|mut stream, _| async move {
        request(&mut stream).await;
        let chunk = format!("{:x}\r\n{}\r\n", 1 << 16, " ".repeat(1 << 16));
        write(&mut stream, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
        while write(&mut stream, &chunk).await {}
    });
    let text = failure(&Faulty::start(endless)).await;
    let want = "unexpected error when reading response body. Please retry. Original error: the response is longer than 8388608 bytes";
    // A slow machine may reach the deadline first.
    assert!(
        [want, &want.replace("the response is longer than 8388608 bytes", "context deadline exceeded")]
            .contains(&&*text),
        "{text}"
    );
}

/// A server that reads a request and answers with these bytes, then with `more` every 20 ms.
fn drips(bytes: &'static str, more: &'static str) -> Misbehaviour {
    late(move |mut stream, _| async move {
        request(&mut stream).await;
        write(&mut stream, bytes).await;
        while write(&mut stream, more).await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
}

#[tokio::test]
async fn slow_responses_have_gos_words() {
    let hung = late(|mut stream, _| async move { drain(&mut stream).await });
    assert_eq!(failure(&Faulty::start(hung)).await, "context deadline exceeded");
    assert_eq!(failure(&Faulty::start(drips("HTTP/1.1 200 OK\r\nX: ", "y"))).await, "context deadline exceeded");
    assert_eq!(failure(&Faulty::start(drips("", "HTTP/1.1 100 Continue\r\n\r\n"))).await, "context deadline exceeded");
    let text = failure(&Faulty::start(drips("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", " "))).await;
    let want = "unexpected error when reading response body. Please retry. Original error: context deadline exceeded";
    assert_eq!(text, want);
}

#[tokio::test]
async fn a_server_that_reads_nothing_does_not_keep_a_connection() {
    let deaf = late(|mut stream, mut context| async move {
        context.release().await;
        drain(&mut stream).await;
    });
    let mut object = configmap();
    object["data"] = json!({"large": "x".repeat(5 << 20)});
    assert_eq!(failure_with(&Faulty::start(deaf), object).await, "context deadline exceeded");
}

#[tokio::test]
async fn a_reset_is_heard_wherever_it_comes() {
    let resets = |bytes: &'static str| {
        late(move |mut stream, _| async move {
            request(&mut stream).await;
            if write(&mut stream, bytes).await && !bytes.is_empty() {
                // The reset must not overtake the bytes.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            reset(stream.get_ref().0);
        })
    };
    let by_peer = "read tcp FROM->TO: read: connection reset by peer";
    for (bytes, want) in [
        ("", by_peer.to_owned()),
        ("HTTP/1.1 200 OK\r\n", format!("net/http: HTTP/1.x transport connection broken: {by_peer}")),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{",
            format!("unexpected error when reading response body. Please retry. Original error: {by_peer}"),
        ),
    ] {
        assert_eq!(without_ports(&failure(&Faulty::start(resets(bytes))).await), want, "{bytes}");
    }
}

#[tokio::test]
async fn a_certificate_of_the_past_is_no_good() {
    let hung = late(|mut stream, _| async move { drain(&mut stream).await });
    let server = Faulty::with_certificate(hung, |params| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    });
    let text = failure(&server).await;
    let start = "tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time ";
    assert!(text.starts_with(start) && text.ends_with(" is after 2021-01-01T00:00:00Z"), "{text}");
}

/// A server that answers every request with the bytes `in_front`, and then with an allowing answer.
fn well(in_front: &'static str, closes: bool) -> Misbehaviour {
    late(move |mut stream, _| async move {
        while let Some(review) = request(&mut stream).await {
            write(&mut stream, format!("{in_front}{}", answer(&review))).await;
            if closes {
                stream.shutdown().await.ok();
                return;
            }
        }
    })
}

#[tokio::test]
async fn interim_answers_are_passed_over() {
    let server =
        Faulty::start(well("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", false));
    let world = validating(&[server.hook(json!({}))]);
    for _ in 0..3 {
        world.plugin.validate(&create(configmap())).await.unwrap();
    }
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn a_connection_that_was_closed_when_idle_is_made_anew() {
    let server = Faulty::start(well("", true));
    let world = validating(&[server.hook(json!({}))]);
    let before = Handle::current().metrics().num_alive_tasks();
    for calls in 1..=3 {
        world.plugin.validate(&create(configmap())).await.unwrap();
        assert_eq!(server.accepted(), calls);
        // The task that is left waits on the idle connection.
        eventually("the end noticed", || Handle::current().metrics().num_alive_tasks() <= before + 1).await;
    }
}
