require 'sidekiq'
require 'sidekiq/api'
url = "redis://127.0.0.1:6379"
Sidekiq.configure_client { |c| c.redis = { url: url } }
Sidekiq.configure_server { |c| c.redis = { url: url } }
class Receipt
  include Sidekiq::Worker
  sidekiq_options queue: 'mail', retry: 0
  def perform(kind) = (raise 'planted-sidekiq' if kind == 'boom')
end
if ARGV[0] == 'add'
  Receipt.perform_async('fine'); Receipt.perform_in(3600, 'later'); Receipt.perform_async('boom')
end
