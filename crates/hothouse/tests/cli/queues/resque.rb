require 'resque'
Resque.redis = '127.0.0.1:6379'
class Receipt
  @queue = :mail
  def self.perform(kind)
    sleep 4 if kind == 'slow'
    raise 'planted-resque' if kind == 'boom'
  end
end
case ARGV[0]
when 'add' then ARGV.drop(1).each { |kind| Resque.enqueue(Receipt, kind) }
when 'work' then Resque::Worker.new('mail').work(0.2)
when 'failed' then print Resque::Failure.all(0, 10).then { |all| [all].flatten.map { |job| job['retried_at'].to_s } }.join(' ')
end
