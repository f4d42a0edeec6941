# frozen_string_literal: true

require "sidekiq"

# A job that counts its runs.
class Plain
  include Sidekiq::Worker

  def perform(name)
    Sidekiq.redis { |db| db.hincrby("runs", name, 1) }
  end
end

# Fails until the third time.
class Third
  include Sidekiq::Worker
  sidekiq_options retry: 5
  sidekiq_retry_in { 1 }

  def perform(name)
    raise "again" if Sidekiq.redis { |db| db.hincrby("runs", name, 1) } < 3
  end
end

# Fails once and is dead.
class Dies
  include Sidekiq::Worker
  sidekiq_options retry: 0

  def perform
    raise "no"
  end
end

# Is at work until it is told to end.
class Long
  include Sidekiq::Worker

  def perform(name)
    Sidekiq.redis { |db| db.hincrby("begun", name, 1) }
    sleep 0.05 until Sidekiq.redis { |db| db.exists?("end") }
    Sidekiq.redis { |db| db.hincrby("runs", name, 1) }
  end
end
