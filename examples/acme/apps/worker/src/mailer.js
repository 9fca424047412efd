import nodemailer from 'nodemailer';

/** SMTP with a login, and never without TLS: from the start on port 465, with STARTTLS otherwise. */
export function createMailer(config) {
  const transport = nodemailer.createTransport({
    host: config.SMTP_HOST,
    port: config.SMTP_PORT,
    secure: config.SMTP_PORT === 465,
    requireTLS: config.SMTP_PORT !== 465,
    auth: { user: config.SMTP_USER, pass: config.SMTP_PASSWORD },
    connectionTimeout: 5_000,
    greetingTimeout: 5_000,
    socketTimeout: 15_000,
  });
  return {
    send: ({ to, subject, text, html, headers }) => transport.sendMail({ from: config.MAIL_FROM, to, subject, text, html: String(html), headers }),
    close: () => transport.close(),
  };
}
