<?php
foreach (['Container', 'Events', 'Database', 'Redis', 'Queue'] as $part) require "/usr/share/php/Illuminate/$part/autoload.php";
use Illuminate\Database\Capsule\Manager as Database;
use Illuminate\Queue\Capsule\Manager as Queue;

class Receipt { function fire($job, $data) { if ($data['kind'] === 'boom') throw new RuntimeException('planted-laravel'); $job->delete(); } }

$url = parse_url($argv[2]);
$database = new Database;
$database->addConnection(['driver' => 'pgsql', 'host' => '127.0.0.1', 'port' => $url['port'], 'database' => ltrim($url['path'], '/'), 'username' => $url['user'], 'password' => $url['pass'] ?? '']);
$database->setAsGlobal();
$container = $database->getContainer();
$schema = $database->getConnection()->getSchemaBuilder();
if (!$schema->hasTable('jobs')) {
  $schema->create('jobs', function ($t) { $t->bigIncrements('id'); $t->string('queue')->index(); $t->longText('payload'); $t->unsignedTinyInteger('attempts'); $t->unsignedInteger('reserved_at')->nullable(); $t->unsignedInteger('available_at'); $t->unsignedInteger('created_at'); });
  $schema->create('failed_jobs', function ($t) { $t->id(); $t->string('uuid')->unique(); $t->text('connection'); $t->text('queue'); $t->longText('payload'); $t->longText('exception'); $t->timestamp('failed_at')->useCurrent(); });
}
$queue = new Queue($container);
$queue->getQueueManager()->addConnector('database', fn () => new Illuminate\Queue\Connectors\DatabaseConnector($database->getDatabaseManager()));
$redis = new Illuminate\Redis\RedisManager($container, 'phpredis', ['default' => ['host' => '127.0.0.1', 'port' => 6379, 'database' => 0]]);
$queue->getQueueManager()->addConnector('redis', fn () => new Illuminate\Queue\Connectors\RedisConnector($redis));
$queue->addConnection(['driver' => 'database', 'table' => 'jobs', 'queue' => 'bills'], 'database');
$queue->addConnection(['driver' => 'redis', 'connection' => 'default', 'queue' => 'letters'], 'redis');
$failed = new Illuminate\Queue\Failed\DatabaseUuidFailedJobProvider($database->getDatabaseManager(), 'default', 'failed_jobs');
foreach (['database' => 'bills', 'redis' => 'letters'] as $name => $to) {
  $connection = $queue->getConnection($name);
  if ($argv[1] === 'add') {
    $connection->push('Receipt', ['kind' => 'fine']); $connection->push('Receipt', ['kind' => 'boom']); $connection->later(3600, 'Receipt', ['kind' => 'later']);
  }
  while ($argv[1] === 'work' && $job = $connection->pop($to)) {
    try { $job->fire(); } catch (Throwable $error) { $failed->log($name, $to, $job->getRawBody(), $error); $job->delete(); }
  }
}
