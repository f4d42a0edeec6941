# frozen_string_literal: true

# Sidekiq: jobs at once, later, of bulk, that fail and are tried again, that are dead; its figures and pages; a process
# that is asked to stop gives its jobs back, and what one had planned is done by the next.

ENV["REDIS_URL"] = "redis://#{ARGV[0]}:#{ARGV[1]}/3"

require "sidekiq/api"
require "sidekiq/web"
require "rack/mock"
require_relative "jobs"

def until_true(what)
  3000.times do
    return if yield

    sleep 0.1
  end
  abort "not within five minutes: #{what}"
end

def equal(left, right)
  abort "#{left.inspect} is not #{right.inspect}, at #{caller(1..1)}" unless left == right
end

def runs(name = nil)
  Sidekiq.redis { |db| name ? db.hget("runs", name).to_i : db.hgetall("runs") }
end

# A process with five threads that looks for planned jobs every second.
def start
  settings = File.join(__dir__, "settings.yml")
  command = ["sidekiq", "-r", File.join(__dir__, "jobs.rb"), "-C", settings, "-e", "test"]
  process = Process.spawn(*command, out: File::NULL, err: ENV["SHOW"] || File::NULL)
  at_exit do
    Process.kill("KILL", process)
  rescue Errno::ESRCH
    # It has ended.
  end
  process
end

def stop(process, how)
  Process.kill(how, process)
  Process.wait(process)
end

def first_process
  process = start
  100.times { |nth| Plain.perform_async("p#{nth}") }
  Sidekiq::Client.push_bulk("class" => Plain, "args" => (0...500).map { |nth| ["b#{nth}"] })
  Plain.perform_in(0.5, "later")
  Plain.set(queue: "low").perform_async("low")
  Third.perform_async("third")
  Dies.perform_async
  hours = Plain.perform_in(3600, "in hours")
  until_true("the jobs") { runs.size == 603 && runs("third") == 3 && Sidekiq::DeadSet.new.size == 1 }
  equal(runs.reject { |name, _| name == "third" }.values.uniq, ["1"])
  equal(Sidekiq::ScheduledSet.new.map(&:jid), [hours])
  until_true("the process") { Sidekiq::ProcessSet.new.size == 1 }
  until_true("the figures") { Sidekiq::Stats.new.processed >= 606 }
  equal(Sidekiq::Stats.new.failed, 3)
  equal(Sidekiq::RetrySet.new.size, 0)
  process
end

def pages
  app = Rack::MockRequest.new(Rack::Builder.new { use Rack::Session::Cookie, secret: "x" * 64; run Sidekiq::Web }.to_app)
  ["/", "/busy", "/queues", "/queues/default", "/scheduled", "/retries", "/morgue", "/stats"].each do |page|
    equal([page, app.get(page).status], [page, 200])
  end
end

def jobs_given_back(process)
  3.times { |nth| Long.perform_async("l#{nth}") }
  until_true("work") { Sidekiq.redis { |db| db.hlen("begun") } == 3 && Sidekiq::Workers.new.size == 3 }
  stop(process, "TERM")
  equal(Sidekiq::Queue.new.size, 3)
  equal(Sidekiq::ProcessSet.new.size, 0)
  Sidekiq.redis { |db| db.set("end", 1) }
  Plain.perform_in(0.1, "between")
  process = start
  until_true("jobs that were given back") { (0..2).all? { |nth| runs("l#{nth}") == 1 } && runs("between") == 1 }
  process
end

def lists
  Sidekiq::ScheduledSet.new.first.delete
  equal(Sidekiq::ScheduledSet.new.size, 0)
  id = Plain.set(queue: "nobody").perform_async("never")
  queue = Sidekiq::Queue.new("nobody")
  equal([queue.size, queue.find_job(id).args, queue.latency < 60], [1, ["never"], true])
  queue.clear
  equal(Sidekiq::Queue.all.map(&:name).include?("nobody"), false)
end

process = first_process
pages
process = jobs_given_back(process)
lists
stop(process, "TERM")
puts "OK"
